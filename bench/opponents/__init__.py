"""What genmix is compared with: each written plainly and without waste."""
