"""What the kernel and the services write down."""
