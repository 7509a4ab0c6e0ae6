"""Texts on which tokenizers go apart: what encoders are compared on. The same ones each time."""

from __future__ import annotations

import random
import unicodedata
from functools import cache

_WRITTEN = (
    "",
    " ",
    "\n",
    "The answer is 42.",
    "Let me think about this step by step.",
    "step by step\n\nThe",
    "hello world foo",
    "don't they'll I'VE we'D it'S x'll 's'S",
    "\u017f'\u017f \u212a'\u212a '\u017f don'\u017f",  # long s and the Kelvin sign fold to ASCII where case is ignored
    "CamelCaseAndSNAKE_CASE and iOS, McDonald's, ÉCOLE École éCOLE",
    "ǅungla ǅ ᾈ ʰ ª º ĳ",  # title-case and modifier letters
    # scripts
    "你好，世界！这是一个测试。",
    "繁體中文與简体中文 mixed with English和数字123在一起",
    "㐀㐁𠀀𠀁𪜶〇〡々〆",
    "これはテストです。カタカナとﾊﾝｶｸ、漢字仮名交じり文ー",
    "안녕하세요 세계 한국어 ㄱㄴㄷ 각",
    "Привет, мир! Ёлка ёж Ѵ ѣ",
    "Γειά σου Κόσμε ς Σ",
    "مرحبا بالعالم ١٢٣٤ ﷺ لا",
    "שלום עולם שָׁלוֹם",
    "नमस्ते दुनिया क्षत्रिय १२३",
    "สวัสดีชาวโลก น้ำ ๑๒๓",
    "வணக்கம் ஸ்ரீ బాగుంది ಕನ್ನಡ മലയാളം",
    "ආයුබෝවන් မင်္ဂလာပါ ជំរាបសួរ བཀྲ་ཤིས།",
    "გამარჯობა Բարեւ ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ አማርኛ",
    "Tiếng Việt: phở, nghĩa, Đường",
    # emoji and combining marks
    "👨‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈 🇧🇷🇩🇪 ❤️ ❤ 1️⃣ #️⃣",
    "😀😃😄😁😆🥹🫠🫨🩷",
    "\u00e9 e\u0301 \u00c5 A\u030a \u212b \u00f1 n\u0303 \ufb01 \ufb00 \u00bd \u00b2 \u2167 \u2460",
    "Z̸̡̢͎̗a̵̛̛l̶͔͝g̴̹̈́o̷̢͗",
    "a\u0301a\u0308a\u0302 \u0301 \u0308 \u0301x",
    unicodedata.normalize("NFD", "Ångström café naïve Việt 각"),
    # digits
    "1234567890",
    "1 12 123 1234 12345 3.14159265358979 1,000,000.00 0x1F 1e-10",
    "２０２６年１２月 ٣٤٥ ९८७ ⅓ ⁴ ௧௨௩௪",
    # blanks
    " leading",
    "trailing ",
    "two  blanks   three    four",
    "\t\ttabs\tand  blanks \t mixed",
    "line\nline\n\nline\n\n\nline",
    "a\r\nb\r\n\r\nc\rd\n\re",
    "   \n  \n\n   x",
    "x   \n",
    "x \n y \n\n z \r\n",
    "no-break\xa0blank\u2003em\u3000ideographic\u200bzero\u2060joiner\ufeffmark\x85next\u2028line\u2029paragraph",
    "\x1c\x1d\x1e\x1f\x0b\x0c",
    " " * 99 + "x" + " " * 1000,
    "\n" * 300 + " \n" * 200 + "\t\n" * 100,
    # code and markup
    'def f(x: int) -> str:\n    return f"{x!r:>10}"  # comment\n\n\nclass A:\n\tpass\n',
    "for(int i=0;i<n;++i){a[i]^=(b&c)|~d;}//…\r\n",
    '{"a": 1, "b": [true, null, "\\u00e9\\n\\"q\\""], "c":{"d":"e"}}',
    '{"a":1,"b":[true,null],"c":{"d":"e"}}',
    "<html>&lt;b&gt;&amp;&nbsp;</html> %20 \\x41 \\u0041 \\n \\\\n C:\\new\\table",
    r"\frac{1}{2} \sum_{i=0}^{\infty} x_i^2 \leq \sqrt{\pi}",
    "SELECT * FROM \"t\" WHERE a='it''s' -- x\n;",
    "https://example.com/a?b=c&d=%E4%BD%A0#e user@example.com",
    "!!!!" * 24,
    "=" * 80 + "\n" + "-" * 79 + "\n" + "." * 200,
    "|a|b|\n|---|:-:|\n| 1 | 2 |\n",
    "```python\nprint('hi')\n```\n\n* one\n  * two\n",
    # what looks like a marker
    "<think>ok</think>",
    "< think></think >",
    "<|im_end|>",
    "a<|im_end|>b<|im_user|>user<|im_middle|>c",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
    "[BOS][EOS][EOT][UNK][PAD] [bos]",
    "<|im_start|>system<|endoftext|><|reserved_token_163700|><|im_en",
    "<|think|><|user|><|assistant|><|code|>",
    # rare characters
    "\x00\x01\x07\x1b[31m\x7f\x80\x9f",
    "\ue000\uf8ff\U000f0000\U0010fffd",
    "\ufffd\ufffe\uffff\ufdd0\U0001fffe\U0010ffff",
    "\u202eright\u202c \u200fleft\u200e \u2066x\u2069",
    "\u0378\U000e0001\U000e007f\U0001f9ff\ua7ff",
    "a" * 2000,
    "ab" * 2000,
    "你" * 1000,
    "Aa" * 500 + "1" * 500 + "!" * 500,
)

# Ranges that random texts are drawn from, each as likely as any other.
_RANGES = (
    (0x00, 0x7F),
    (0x20, 0x7E),
    (0x09, 0x0D),
    (0x80, 0x24F),
    (0x2B0, 0x36F),
    (0x370, 0x52F),
    (0x590, 0x6FF),
    (0x900, 0xDFF),
    (0xE00, 0xFFF),
    (0x1100, 0x11FF),
    (0x1E00, 0x206F),
    (0x2070, 0x2BFF),
    (0x3000, 0x30FF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xE000, 0xF8FF),
    (0xF900, 0xFFFF),
    (0x10000, 0x1FFFF),
    (0x1F300, 0x1FAFF),
    (0x20000, 0x2A6DF),
    (0xE0000, 0x10FFFF),
)
# What Kimi's split pattern treats in its own way: case, contractions, Han beside letters, numbers, blanks.
_WORDS = (
    *(" ", "  ", "\n", "\n\n", "\r\n", "\t", ".", "...", "\u201d", "e\u0301", "\u02b0", "\u01c5"),
    *("'s", "'LL", "'Re", " don't", " I'VE", "it's", "The", " the", "iOS", "ABCdef", " McD", "x", "Y"),
    *("123", "4", " 12345", "你好", "中", "々", "ー"),
)


@cache
def hard_texts() -> tuple[str, ...]:
    """The written texts, then 4,000 random ones, always the same; none is longer than 25,000 characters."""
    draw = random.Random(4_013)
    return (*_WRITTEN, *(_random_text(draw) for _ in range(4_000)))


@cache
def long_texts() -> dict[str, str]:
    """Texts that Kimi's own tokenizer cuts before it encodes them, by what they are."""
    draw = random.Random(600_000)
    sentences = [text for text in _WRITTEN if len(text) < 200]
    prose = "".join(f"{draw.choice(sentences)} " for _ in range(40_000))[:600_000]
    return {
        "600,000 characters": prose,
        "60,000 blanks": " " * 60_000,
        "60,000 letters": "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=60_000)),
        "60,000 times one letter": "x" * 60_000,
    }


def _random_text(draw: random.Random) -> str:
    pieces = []
    for _ in range(draw.randint(1, 12)):
        if draw.random() < 0.4:
            pieces.append(draw.choice(_WORDS))
            continue
        first, last = draw.choice(_RANGES)
        pieces += (chr(draw.randint(first, last)) for _ in range(draw.randint(1, 6)))
    return "".join(pieces)
