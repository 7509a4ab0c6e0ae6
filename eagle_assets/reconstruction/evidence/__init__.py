"""What an exchange says: its texts, its layout, its frames and the steps of its stream."""
