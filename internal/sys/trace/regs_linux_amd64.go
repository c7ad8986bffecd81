package trace

// Where the first three arguments of a system call lie in the kernel's struct pt_regs, in bytes: rdx, rsi and rdi
// follow each other.
const (
	argumentsAt                             = 96
	firstArgument, secondArgument, thirdArg = 16, 8, 0 // from there
)
