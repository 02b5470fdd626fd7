// Package config reads toolwire.yaml, the declared configuration of an installation, and says what
// applying it would change.
//
//	f, err := config.Parse("toolwire.yaml", data)
//	changes, err := config.Plan(now, f.Config)
//
// Both are pure. [Parse] is strict, since a key that is misspelt and ignored is a rule that does not
// hold: unknown and repeated keys, values of another kind, anchors, tags and further documents are
// errors, all of a file at once, each with its line and column. What it returns has passed
// [toolkit.Config.Check].
//
// The file differs from [toolkit.Config] where people write it: presets are a literal or {env: …},
// {file: …}, {value: …}, may stand under presets as well as under tools, metaTool is true or false, and rules are
// {deny: "tool(content)"} and the like. An external tool has the keys that make sense for one that no worker runs.
//
// To add a section, add a row to a table in fields.go or people.go, and say in schema_internal_test.go what
// editors show of it; that test writes docs/toolwire.schema.json.
package config
