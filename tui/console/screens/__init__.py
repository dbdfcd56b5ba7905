"""The models of the console's screens: content and commands, without Textual."""
