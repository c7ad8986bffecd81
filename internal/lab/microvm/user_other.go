//go:build !unix

package guest

func currentUser() string { return "root" }
