package toolkit

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

// exportName is a name that every API of a model takes. OpenAI and Anthropic take digits and '-' in
// front as well, but Gemini, which speaks Chat Completions too, does not.
var exportName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`)

// mcpName is a name that MCP takes.
var mcpName = regexp.MustCompile(`^[a-zA-Z0-9_./-]{1,128}$`)

const maxExportName = 64

// aliases names the tools for an API. A name that suits stays. Any other has an alias made of it
// alone, so that it stays the same when other tools come and go, and a model's history stays true.
func aliases(defs []Definition, model bool) []string {
	suits := mcpName
	if model {
		suits = exportName
	}
	taken := map[string]bool{}
	for _, d := range defs {
		taken[string(d.Name)] = true // a tool's own name is never the alias of another
	}
	given := make([]string, len(defs))
	known := map[string]string{} // of a tool that is there twice
	for i, d := range defs {
		name := string(d.Name)
		if suits.MatchString(name) {
			given[i] = name
			continue
		}
		if known[name] == "" {
			known[name] = aliasOf(name, taken)
			taken[known[name]] = true
		}
		given[i] = known[name]
	}
	return given
}

// aliasOf is the name as far as it suits, and eight hex digits that tell it from others like it.
func aliasOf(name string, taken map[string]bool) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if plain == "" || plain[0] == '-' || '0' <= plain[0] && plain[0] <= '9' {
		plain = "_" + plain
	}
	for salt := 0; ; salt++ {
		of := name
		if salt > 0 {
			of += "\x00" + strconv.Itoa(salt)
		}
		sum := sha256.Sum256([]byte(of))
		end := "_" + hex.EncodeToString(sum[:4])
		if alias := plain[:min(len(plain), maxExportName-len(end))] + end; !taken[alias] {
			return alias
		}
	}
}
