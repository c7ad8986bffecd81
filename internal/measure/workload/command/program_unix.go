//go:build !windows

package command

import "os"

// defaultPath is where programs are looked for when the environment has no PATH, as in a container started bare.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func defaultShell() []string { return []string{"sh", "-c"} }

func programSuffixes() []string { return []string{""} }

func executable(st os.FileInfo) bool { return st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 }
