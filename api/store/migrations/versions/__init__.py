"""Each module here is one step with its way back."""
