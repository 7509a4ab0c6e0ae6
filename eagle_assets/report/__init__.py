"""What a person looks at: pictures as SVG, and one self-contained page about everything in a home."""
