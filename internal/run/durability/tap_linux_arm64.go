package durability

// firstArgument is the place of a system call's first argument in the kernel's struct pt_regs, in bytes: x0.
const firstArgument = 0

// nextArgument is how far the next one is from there.
const nextArgument = 8
