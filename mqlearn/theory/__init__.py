"""What theorems say in numbers."""
