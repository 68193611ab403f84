"""What will bite on this machine is looked for without changing anything."""
