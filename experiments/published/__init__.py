"""Tables made of what others have published, and measurements on them."""
