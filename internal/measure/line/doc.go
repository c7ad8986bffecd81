// Package line makes a reliable stream of bytes over a plain serial line: a UART that a hypervisor connects to a socket
// or a pipe, or a real one.
//
// It is opinionated about what else is on such a line. Firmware, boot loader and kernel print to it at any time, also
// in the middle of a frame; it may echo, lose bytes, or have nobody at its other end. So a frame stands between two
// flags and has a checksum. Everything else is noise, which is kept: it is the guest's console. What was damaged is
// sent again. Nobody sends more than the other end has room for.
//
// The guest speaks first. It calls twice a second until a controller opens a session, because a controller that speaks
// to a firmware or a boot loader presses keys there. A controller may come late, or come again after another one was
// killed: a new session ends the old one. While a session has nothing to send the line is silent, so that nothing
// disturbs a measurement.
//
//	guest                              controller
//	call, call ...                  ->
//	                                <- open(session)
//	stream(ack)                     ->
//	stream(data, ack) ...          <-> stream(data, ack) ...
//
// A frame is FLAG, the escaped bytes of kind, body and CRC-32, FLAG. The checksum of all frames of a session includes
// its number, so that frames of an older session are damaged ones. The first bit of the kind tells who sent it, so that
// an echo is not taken for an answer.
package line
