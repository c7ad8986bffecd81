// Package compare turns a bundle's trials into verdicts.
package compare
