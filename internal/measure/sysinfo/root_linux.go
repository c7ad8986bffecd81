package sysinfo

// DistroOf returns the name of the system whose files are below root, "" if it is not known.
func DistroOf(root string) string {
	// Not etc/os-release first, because it is a link, which may lead out of the root.
	for _, name := range []string{"usr/lib/os-release", "etc/os-release"} {
		if text := tree(root).read(name); text != "" {
			return parseOSRelease(text)
		}
	}
	return ""
}
