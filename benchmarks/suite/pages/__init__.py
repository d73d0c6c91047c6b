"""Tables, figures and the page, made of what runs left."""
