// Package stacks has the recipes of the sites that tare makes: data and scripts, a folder for each recipe.
//
// docs/stacks.md says how to add one.
package stacks

import "embed"

// Files has stack.sh, the program of every stack, text.php, which makes up content, and the recipes' folders.
//
//go:embed stack.sh text.php */*
var Files embed.FS
