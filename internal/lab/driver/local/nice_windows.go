package local

// ownNice is 0: Windows has no niceness.
func ownNice() int { return 0 }
