// Package console is the web page for approvers: what is open, one page for each question with all that
// is to be known of the call, the answer, and what became of it.
//
// Its pages are rendered here and work without JavaScript; a small script keeps them up to date. They show
// text of models and tools, which nobody vouches for: package show marks what would not show as itself.
//
// Whoever reaches the console answers in its name, so it asks everybody for a token, listens on loopback
// unless told otherwise, serves no host name but its own, and takes forms from its own pages only.
package console
