package limited

// mine is true: there are no groups.
func mine(string) bool { return true }
