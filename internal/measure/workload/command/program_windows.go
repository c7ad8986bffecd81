package command

import (
	"os"
	"strings"
)

const defaultPath = `C:\Windows\System32;C:\Windows`

func defaultShell() []string { return []string{"cmd", "/D", "/C"} }

func programSuffixes() []string {
	exts := os.Getenv("PATHEXT")
	if exts == "" {
		exts = ".COM;.EXE;.BAT;.CMD"
	}
	return append([]string{""}, strings.Split(exts, ";")...)
}

func executable(st os.FileInfo) bool { return st.Mode().IsRegular() }
