// Empty: with a file of assembler in the package, its Go functions may be without a body, which is
// what walsync_linux.go takes from the runtime.
