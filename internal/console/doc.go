// Package console is the web page for approvers: what is asked, all that is to be known of it, and the
// answer.
//
//	page, err := console.New(client, console.Config{Actor: "alice"})
//	…
//	err = page.Run(ctx) // page.URL() is what to open
//
// Every page works without scripts: reading is a GET, deciding is a form. A script of a few lines keeps
// the list up to date and adds keys.
//
// # Who may use it
//
// Whoever has the token, which a browser brings once in the address and keeps in a cookie that no
// script and no other site sees. A request under a name that is not served here is refused (DNS rebinding),
// and so is a form that comes from elsewhere (its origin, and a token of its own in each form). Nothing is
// loaded from anywhere else, and nothing may frame the page.
//
// All that is shown was written by somebody else, often a model: package show makes visible what could
// hide or reorder it, and it is never cut without saying so.
package console
