"""For every test: signals as a terminal leaves them, whatever the tests were started with."""

import signal

# Shells start background jobs with SIGINT ignored, and every process that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
