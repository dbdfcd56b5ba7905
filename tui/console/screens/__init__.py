"""The screens of the console, each as what it shows and what its keys do. None of them knows Textual."""
