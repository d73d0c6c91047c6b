"""Tables, figures and pages, made of what runs left."""
