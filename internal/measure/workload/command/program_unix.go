//go:build !windows

package command

import "os"

// defaultPath is searched for programs when the environment has no PATH, as in a bare container.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func defaultShell() []string { return []string{"sh", "-c"} }

func programSuffixes() []string { return []string{""} }

func executable(st os.FileInfo) bool { return st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 }
