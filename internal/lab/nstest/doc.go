// Package nstest keeps the namespaces that servers of tests run in: one signal ends them with all their processes, even
// if the test binary is killed, and nothing that they mount or listen on is seen outside.
package nstest
