//go:build !unix

package microvm

func currentUser() string { return "root" }
