//go:build !unix

package main

import (
	"errors"
	"os"
)

// peakMB is the largest resident set that a process had which has ended.
func peakMB(*os.ProcessState) (float64, error) {
	return 0, errors.New("this system does not tell how much memory a process had")
}

// mayOpen says whether programs started here may have so many files open.
func mayOpen(int) error {
	return missing{"this system does not tell how many files a process may open"}
}
