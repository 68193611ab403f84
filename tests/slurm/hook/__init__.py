"""The hook against real sockets and processes: whatever goes wrong, only a whole refusal exits 1."""
