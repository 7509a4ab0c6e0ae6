"""The commands of the command line: what each takes, and which sentence a user's mistake gives."""
