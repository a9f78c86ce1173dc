// Package callbacks receives what tools call back: POST /callbacks/{operation_id}.
// See package pkg/tools/callback for the message.
//
// It promises that nothing is believed, and nothing reaches the database, before
// the signature of a configured tool is verified; that an answer below 500 is
// given only once the message is durably kept or is refused for good; and that
// each refusal says which, in its status and in the code of its problem document.
//
// It does not decide what a message changes. It is kept as evidence, and whoever
// converges doubts goes on from there. It does not limit how often a tool may
// call; a message that is sent again is kept once.
package callbacks
