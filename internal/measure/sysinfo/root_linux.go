package sysinfo

// DistroOf is what the system whose files are below root calls itself, "" when it does not say.
func DistroOf(root string) string {
	// Not etc/os-release first, which is a link and may be one that leads out of the root.
	for _, name := range []string{"usr/lib/os-release", "etc/os-release"} {
		if text := tree(root).read(name); text != "" {
			return parseOSRelease(text)
		}
	}
	return ""
}
