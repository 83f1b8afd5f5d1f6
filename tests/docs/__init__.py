"""README and the pages of the site: what they show is what happens."""
