package permission

import (
	"slices"
	"strings"
)

// gitReads says whether git with these arguments only reads. Flags before the subcommand may set
// anything (-c core.pager=…), so there is but one that is known.
func gitReads(args []string) bool {
	if len(args) > 0 && args[0] == "--no-pager" {
		args = args[1:]
	}
	if len(args) == 0 {
		return false
	}
	sub, rest := args[0], args[1:]
	// These write a file, or run programs that a repository names.
	if hasLong(rest, "output", "ext-diff", "textconv", "filters", "open-files-in-pager", "upload-pack", "exec") {
		return false
	}
	switch sub {
	case "status", "log", "diff", "show", "ls-files", "ls-tree", "cat-file", "rev-parse", "rev-list", "describe", "shortlog", "blame":
		return true
	case "grep":
		return !hasLetter(rest, "O")
	case "branch":
		return gitLists(rest, "--all --remotes --verbose --list --show-current --color --no-color --column --no-column --sort --format --ignore-case "+
			"--contains --no-contains --merged --no-merged --points-at --abbrev --no-abbrev", "arvli")
	case "tag":
		return gitLists(rest, "--list --color --column --no-column --sort --format --ignore-case --contains --no-contains --merged --no-merged "+
			"--points-at", "lin0123456789")
	case "remote":
		return len(rest) == 0 || slices.Equal(rest, []string{"-v"}) || slices.Equal(rest, []string{"--verbose"}) || rest[0] == "show" || rest[0] == "get-url"
	case "reflog":
		return len(rest) == 0 || rest[0] == "show" || rest[0] == "exists" || rest[0] == "list"
	case "config":
		return len(rest) > 0 && (rest[0] == "--get" && len(rest) <= 3 || (rest[0] == "--list" || rest[0] == "-l") && len(rest) == 1)
	}
	return false
}

// gitLists says whether branch or tag only lists: with known flags, and with names only beside a flag
// that makes them patterns. Flags that are cut short are not known.
func gitLists(args []string, long, short string) bool {
	names, listing := false, false
	for _, a := range args {
		flag, _, _ := strings.Cut(a, "=")
		switch {
		case a == "--" || !strings.HasPrefix(a, "-"):
			names = true
		case strings.HasPrefix(a, "--"):
			if !slices.Contains(strings.Fields(long), flag) {
				return false
			}
			listing = listing || slices.Contains(strings.Fields("--list --contains --no-contains --merged --no-merged --points-at"), flag)
		default:
			if strings.Trim(a[1:], short) != "" {
				return false
			}
			listing = listing || strings.Contains(a, "l")
		}
	}
	return listing || !names
}

// gitSettings says whether flags before the subcommand set what may run another program, or make one
// subcommand another.
func gitSettings(args []string) bool {
	for i, a := range args {
		switch {
		case a == "-c" && i+1 < len(args):
			if !harmlessSetting(args[i+1]) {
				return true
			}
		case strings.HasPrefix(a, "--config-env"), strings.HasPrefix(a, "--exec-path="):
			return true
		case !strings.HasPrefix(a, "-") && (i == 0 || !slices.Contains([]string{"-c", "-C", "--git-dir", "--work-tree", "--namespace"}, args[i-1])):
			return false // the subcommand
		}
	}
	return false
}

func harmlessSetting(s string) bool {
	key, value, _ := strings.Cut(foldCase(s), "=")
	switch key {
	case "user.name", "user.email", "core.quotepath", "init.defaultbranch", "gc.auto", "core.autocrlf":
		return true
	case "core.pager", "core.fsmonitor":
		return value == "" || value == "cat" || value == "false"
	case "commit.gpgsign", "tag.gpgsign":
		return value == "false"
	}
	return strings.HasPrefix(key, "color.") || strings.HasPrefix(key, "advice.")
}
