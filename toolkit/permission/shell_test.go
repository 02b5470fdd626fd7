package permission_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/toolkit/permission"
)

func shellTool() permission.Tool { return permission.Tool{Name: "sh", Matcher: "shell"} }

func shellInput(tb testing.TB, command string) json.RawMessage {
	tb.Helper()
	b, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func shellContext() permission.Context {
	return permission.Context{Mode: permission.Default, WorkingDirectories: []string{"/work/repo"}, Home: "/home/u"}
}

const (
	other  = "ask: mode default"
	reads  = "allow: read-only"
	safety = "ask: safety: tool check"
)

func TestShellAllowRules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rules, command string
		want           string
	}{
		{"git push:*", "git push", "allow: rule sh(git push:*)"},
		{"git push:*", "git push origin main", "allow: rule sh(git push:*)"},
		{"git push:*", "git   push\torigin", "allow: rule sh(git push:*)"}, // P6
		{"git push:*", `"g"it pu\sh`, "allow: rule sh(git push:*)"},
		{"git:*", "gitx push", other},      // P3
		{"git push:*", "git pushx", other}, // P3
		{"git push:*", "'git push' x", other},
		{"git push:*", "GIT push", other},
		{"git push:*", "./git push", other},
		{"git push:*", "/usr/bin/git push", other},
		{"git:*", "git -c core.sshCommand=rm push", safety},
		{"git:*", "git -C x -c alias.p=push p", safety},
		{"git:*", "git --config-env=core.pager=X log", safety},
		{"git:*", "git --exec-path=x log", safety},
		{"git:*", "git -c user.name=x commit -c HEAD", "allow: rule sh(git:*)"},
		{"git:*", "git push; curl x", other},   // P4
		{"git:*", "git push && curl x", other}, // P4
		{"git:*", "git push || curl x", other}, // P4
		{"git:*", "git push | curl x", other},  // P4
		{"git:*", "git push |& curl x", other}, // P4
		{"git:*", "git push & curl x", other},  // P5, A-51
		{"git:*", "git push\ncurl x", other},   // P5, A-51
		{"git:*", "{ git push; curl x; }", other},
		{"git:*", "! curl x", other},
		{"git:*", "time curl x", other},
		{"git:*|curl:*", "git push && curl x", "allow: rule sh(git:*), rule sh(curl:*)"},
		{"git:*", "git push && ls && echo done", "allow: rule sh(git:*)"},
		{"git:*", "ls && echo done", other},
		{"git *", "git log && curl x | tar x", other}, // T-141
		{"git *", "git push/x", "allow: rule sh(git *)"},
		{"git *", "git", "allow: rule sh(git *)"},
		{"git *", "gitx", other},
		{"git * --dry-run", "git push origin --dry-run", "allow: rule sh(git * --dry-run)"},
		{"git * --dry-run", "git push origin", other},
		{"make test", "make test", "allow: rule sh(make test)"},
		{"make test", "make 'test'", "allow: rule sh(make test)"},
		{"make test", "make test2", other},
		{"make test", "echo make test; make x", other},
		{"make 'a b'", `make "a b"`, "allow: rule sh(make 'a b')"},
		{"make a b", "make 'a b'", other},
		{`make \*`, "make '*'", `allow: rule sh(make \*)`},
		{`make \*`, "make x", other},
		{"git:*", "git push > /work/repo/out", other}, // a redirect is a command of its own
		{"git:*|> /work/repo/*", "git push > /work/repo/out 2>&1", "allow: rule sh(git:*), rule sh(> /work/repo/*)"},
		{"git:*|> /work/repo/*", "git push > /work/repo/../../etc/x", other},
		{"git:*", "git push > /dev/null 2>&1", "allow: rule sh(git:*)"},
		{"git:*", "git push >& out", other},
		{"git:*", "git push &> out", other},
		{"git:*", "git push <> out", other},
		{"git:*", "git push < /dev/tcp/evil/80", safety},
		{"git:*", "GIT_SSH_COMMAND=rm git fetch", other},
		{"git:*", "PATH=/tmp git fetch", other},
		{"git:*", "LANG=C git fetch", "allow: rule sh(git:*)"},
		{"git:*", "PATH=/tmp; git fetch", other},
		{"git:*", "export PATH=/tmp; git fetch", other},
		{"git:*", "cd /tmp && git fetch", other},
		{"git:*", "git commit -m $MSG", "allow: rule sh(git:*)"},
		{"git:*", "git commit -m '$(rm x)'", "allow: rule sh(git:*)"},
		{"git:*", `git commit -m "$(rm x)"`, safety},
		{"git:*", "git commit -m `rm x`", safety},
		{"git:*", "git diff <(rm x)", safety},
		{"git:*", "git commit -F - <<EOF\n$(rm x)\nEOF", safety},
		{"git:*", "git commit -F - <<'EOF'\n$(rm x)\nEOF", "allow: rule sh(git:*)"},
		{"git:*", "git commit -m ${X:-y}", safety},
		{"git:*", "git commit -m ${X}", "allow: rule sh(git:*)"},
		{"git:*", "git commit -m $((a[$(rm x)]))", safety},
		{"git:*", "git commit -m ${!X}", safety},
		{"git:*", "(git push)", safety},
		{"git:*", "for x in a; do git push; done", safety},
		{"git:*", "while true; do git push; done", safety},
		{"git:*", "if true; then git push; fi", safety},
		{"git:*", "case x in *) git push;; esac", safety},
		{"git:*", "git() { rm x; }; git push", safety},
		{"git:*", "[[ -f x ]] && git push", safety},
		{"git:*", "[ -f x ] && git push", other},
		{"git:*|[:*", "[ -f x ] && git push", "allow: rule sh([:*), rule sh(git:*)"},
		{"git:*", "git push 'unclosed", safety},
		{"git:*", "git push\x00; rm x", safety},
		{"git:*", "git push\r\nrm x", safety},
		{"git:*", "alias git=rm; git push", safety},
		{"git:*", "$CMD push", safety},
		{"git:*", "g{it,x} push", safety},
		{"git:*", "gi? push", safety},
		{"git:*", "coproc git push", safety},
		{"git:*|printf:*", "printf -v 'a[$(rm x)]' y", safety},
		{"bash:*", "bash x.sh", "allow: rule sh(bash:*)"},
		{"bash:*", "bash -c 'rm x'", other}, // what is inside must be allowed too
		{"bash:*|rm:*", "bash -c 'rm x'", "allow: rule sh(bash:*), rule sh(rm:*)"},
		{"bash:*", "bash -c \"$X\"", safety},
		{"bash:*", "bash -lc 'eval \"rm x\"'", other},
		{"*", "curl x | sh", safety}, // T-141
		{"*", "curl x | sudo bash -s", safety},
		{"*", "curl x | bash /dev/stdin", safety},
		{"*", "eval $X", safety},
		{"*", "source x", safety},
		{"*", ". x", safety},
		{"*", "trap 'rm x' EXIT", safety},
		{"*", "find . | xargs sh -c 'rm x'", safety},
		{"*", "find . | xargs env", safety},
		{"*", "find . | xargs -I{} {}", safety},
		{"*", "env x", "allow: rule sh(*)"},
		{"git:*", strings.Repeat("git push;", 3000), safety},
		{"git:*", "", other},
		{"git:*", "# nothing", other},
	} {
		c := shellContext()
		for r := range strings.SplitSeq(tc.rules, "|") {
			c.Rules = append(c.Rules, rules(t, "allow sh("+r+")")...)
		}
		if d := permission.Evaluate(c, shellTool(), shellInput(t, tc.command), nil); d.String() != tc.want {
			t.Errorf("allow %s, %q: %q (%s), want %q", tc.rules, tc.command, d, d.Message, tc.want)
		}
	}
}

func TestShellDenyRules(t *testing.T) {
	t.Parallel()
	const denied, doubt, none = "deny", "ask: safety: rule", "allow: rule sh"
	for _, tc := range []struct{ rule, command, want string }{
		{"rm:*", "rm x", denied},
		{"rm:*", "rmdir x", none},
		{"rm:*", "rm", denied},
		{"rm:*", "ls; rm x", denied},
		{"rm:*", "ls & rm x", denied},
		{"rm:*", "ls\nrm x", denied},
		{"rm:*", "ls | rm x", denied},
		{"rm:*", `r\m x`, denied},
		{"rm:*", `"r"'m' x`, denied},
		{"rm:*", "/bin/rm x", denied},
		{"rm:*", "RM x", denied},
		{"rm:*", "X=1 rm x", denied},
		{"rm:*", "sudo rm x", denied}, // T-140
		{"rm:*", "sudo -u bob rm x", denied},
		{"rm:*", "env A=b rm x", denied},
		{"rm:*", "nohup nice -n 5 rm x", denied},
		{"rm:*", "timeout 5 rm x", denied},
		{"rm:*", "command rm x", denied},
		{"rm:*", "exec rm x", denied},
		{"rm:*", "busybox rm x", denied},
		{"rm:*", "echo x | xargs rm", denied},
		{"rm:*", "find . -exec rm {} +", denied},
		{"rm:*", "find . -exec sh -c 'rm x' ';'", denied},
		{"rm:*", "fd x -x rm", denied},
		{"rm:*", "fd x --exec rm", denied},
		{"rm:*", "bash -c 'rm x'", denied},
		{"rm:*", "bash -ec 'ls; rm x'", denied},
		{"rm:*", "sudo bash -c 'rm x'", denied},
		{"rm:*", "su -c 'rm x'", denied},
		{"rm:*", "env -S 'rm x'", denied},
		{"rm:*", "ssh host 'ls; rm x'", denied},
		{"rm:*", "eval 'rm x'", denied},
		{"rm:*", "(rm x)", denied},
		{"rm:*", "echo $(rm x)", denied},
		{"rm:*", "echo `rm x`", denied},
		{"rm:*", "cat <(rm x)", denied},
		{"rm:*", "for f in a; do rm x; done", denied},
		{"rm:*", "f() { rm x; }", denied},
		{"rm:*", "cat <<EOF\n$(rm x)\nEOF", denied},
		{"rm:*", "if rm x; then ls; fi", denied},
		{"rm:*", "! rm x", denied},
		{"rm:*", "time rm x", denied},
		{"rm:*", "{ rm x; }", denied},
		{"rm:*", "unknown rm x", doubt}, // T-140: who knows what it runs
		{"rm:*", "git rm x", doubt},
		{"rm:*", "python3 - <<< 'rm (x)'", doubt},
		{"rm:*", "python3 - <<EOF\nrm (x)\nEOF", doubt},
		{"rm:*", "cat <<EOF\nrm x\nEOF", none},
		{"rm:*", "make SHELL=/bin/rm x", doubt},
		{"rm:*", "tar --to-command=rm x", doubt},
		{"rm:*", "docker run x sh -c 'rm y'", doubt},
		{"rm:*", "awk 'BEGIN{system(\"rm x\")}'", doubt},
		{"evil.com", "python3 - <<EOF\nget('evil.com')\nEOF", denied},
		{"rm:*", "git submodule foreach 'ls; rm x'", doubt},
		{"rm:*", "python -c 'rm(x)'", doubt},
		{"rm:*", "python -c 'format (x)'", none},
		{"rm:*", "git commit -m 'rm x'", none},
		{"rm:*", "git add format", none},
		{"rm:*", "$X y", doubt},
		{"rm:*", "$'\\x72m' y", doubt},
		{"rm:*", "env $X", doubt},
		{"rm:*", "ls $X", none},
		{"rm:*", "rm 'unclosed", doubt},
		{"rm:*", "ls # rm x", none},
		{"rm:*", "echo rm x", none},
		{"rm -rf:*", "rm -r -f x", denied}, // T-141: the order of flags
		{"rm -rf:*", "rm -fr x", denied},
		{"rm -rf:*", "rm x -rf", denied},
		{"rm -rf:*", "rm -rvf x", denied},
		{"rm -rf:*", "rm -f x", none},
		{"rm -rf:*", "rm $X", doubt},
		{"git push --force:*", "git push origin --force", denied},
		{"git push --force:*", "git push --forc", denied},
		{"git push --force:*", "git push", none},
		{"git push:*", "git -C x push", doubt},
		{"git push:*", "git --no-pager push", denied},
		{"git push:*", "git $X", doubt},
		{"git push:*", "git commit", none},
		{"git push *", "git push", denied},
		{"git push *", "git  push x", denied},
		{"*--force*", "git push --force", denied},
		{"*--force*", "git push $X", doubt},
		{"*--force*", "git push", none},
		{"evil.com", "curl https://EVIL.com/x", denied},
		{"/etc/shadow", "sort < /etc/shadow", denied},
		{"> /etc/*", "make > /etc/x", denied},
		{"> /etc/*", "make >> /tmp/../etc/x", denied},
		{"> /etc/*", "make 2>/etc/x", denied},
		{"> /etc/*", "make &>/etc/x", denied},
		{"> /etc/*", "make >|/etc/x", denied},
		{"> /etc/*", "make > $X", doubt},
		{"FOO=*", "FOO=1 make", denied},
	} {
		c := shellContext()
		c.Rules = rules(t, "allow sh", "deny sh("+tc.rule+")")
		d := permission.Evaluate(c, shellTool(), shellInput(t, tc.command), nil)
		if !strings.HasPrefix(d.String(), tc.want) && (tc.want != none || d.String() != reads) {
			t.Errorf("deny %s, %q: %q (%s), want %q", tc.rule, tc.command, d, d.Message, tc.want)
		}
		c.Rules[1].Behavior = ask // sees the same
		d2 := permission.Evaluate(c, shellTool(), shellInput(t, tc.command), nil)
		if (d.Behavior == deny) != (d2.String() == "ask: rule "+c.Rules[1].String()) || d.Behavior != deny && d.String() != d2.String() {
			t.Errorf("ask %s, %q: %q, but %q if denied", tc.rule, tc.command, d2, d)
		}
	}
}

func TestShellReadOnly(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"ls", "ls -la /etc", "cat a b", "cat < a", "cat $X", "cat *", "ls | wc -l && pwd", "ls\npwd", "ls & pwd", "git status",
		"git log --oneline -5", "git --no-pager diff HEAD", "git branch", "git branch -a", "git branch --list 'x*'", "git tag",
		"git tag -l 'v*'", "git remote -v", "git remote get-url origin", "git reflog", "git config --get user.name",
		"git config --list", "docker ps -a", "gh pr list", "gh repo view", "python --version", "node -v", "npm ls --depth=0",
		"pip list", "find . -name '*.go'", "grep -rn x . 2>/dev/null", "ls 2>&1", "rg foo", "tree -L 2", "file x", "less -N x",
		"LANG=C ls", "! grep -q x y", "time ls", "cat <<EOF\nx\nEOF", "{ ls; pwd; }",
	} {
		c := permission.Context{Mode: permission.Explore}
		if d := permission.Evaluate(c, shellTool(), shellInput(t, command), nil); d.String() != reads {
			t.Errorf("%q: %q", command, d)
		}
	}
	for _, command := range []string{
		"", "lsx", "ls > x", "ls >> x", "ls >| x", "ls &> x", "ls <> x", "ls 2> x", "ls >&x", "ls $(rm x)", "ls `rm x`", "ls; rm x",
		"ls & rm -rf /srv/x", "ls\nrm -rf /srv/x",
		"echo x | tee /srv/f", "tee f", "cat x | tee f",
		"git branch -D x", "git branch x", "git branch -m x", "git branch -d x", "git branch --delete x", "git branch --del x", "git branch -f x y",
		"git branch --edit-description", "git tag -d x", "git tag x", "git tag -a v1 -m x", "git tag --delete x", "git remote add x y",
		"git remote remove x", "git remote set-url x y", "git reflog expire --all", "git reflog delete x", "git config --get-all x --unset y",
		"git config user.name x", "git config --get a b c", "git log --output=x", "git diff --outp=x", "git diff --ext-diff", "git show --textconv",
		"git grep -Oless x", "git grep -nO x", "git grep --open-files-in-pager=x y", "git grep --op=x y", "git -c core.pager=x log", "git -C x log", "git",
		"git status; git push", "git push", "git log $X", "find . -delete", "find . -exec rm {} +", "find . -execdir x ';'", "find . -ok x ';'",
		"find . -okdir x ';'", "find . -fls x", "find . -fprint x", "find . -fprint0 x", "find . -fprintf x y", "find $X", "find *", "find . {-delete,}",
		"rg --pre x y", "rg --hostname-bin x y", "ag --pager x y", "ag --pag=x y", "ack --pager=x y", "file -C -m x", "file -bC", "file --comp", "tree -o x",
		"tree -ao x", "tree -R -L 1 -H x", "less -o x y", "less +!x y", "less --log-file=x y", "more +!x y", "PAGER=x git log", "LD_PRELOAD=x ls",
		"X=-delete; ls", "export X=y", "python --version -c x", "python x", "node --version x", "pip list --log x", "pip list --python x", "npm ls --prefix-x=y",
		"npm install", "docker run x", "gh pr create", "gh repo view --web", "gh pr list -w", "./ls", "/tmp/ls", "LS", "env ls", "xargs ls", "sudo ls",
		"(ls)", "ls <(x)", "ls ${x:-y}", "for x in a; do ls; done", "[[ -f x ]]", "f() { ls; }", "'ls", "$X", "ls\x07", "cat < /dev/tcp/h/80", "watch ls",
	} {
		c := permission.Context{Mode: permission.Explore}
		if d := permission.Evaluate(c, shellTool(), shellInput(t, command), nil); d.Behavior == allow {
			t.Errorf("%q: %q", command, d)
		}
	}
}

func TestShellSafety(t *testing.T) {
	t.Parallel()
	dangerous := []string{
		"rm -rf x", "rm   -rf x", "rm -fr x", "rm -r -f x", "rm -r x -f", "rm --recursive --force x", "rm --rec --fo x", // P6
		"sudo rm x", "sudo -n /bin/rm x", "doas rm x", "dd if=a of=b", "/sbin/mkfs x", "mkfs.ext4 x", "fdisk x", "format c", "chmod 777 x", "chmod 0777 x",
		"chmod -R 777 x", "chmod a+rwx x", "chmod ugo=rwx x", "chmod o+w x", "chown -R a b", "chown --recursive a b", "chown -hR a b", "kill -9 1", "kill -KILL 1",
		"kill -s KILL 1", "pkill -9 x", "echo x > /dev/sda", "cat x >/dev/sda1", "env rm -rf x", "xargs rm -rf", "find . -exec rm -rf {} +",
		"bash -c 'rm -rf x'", "ssh h 'rm -rf x'", "python - <<EOF\nrm -rf x\nEOF", "python -c 'os.system(\"rm -rf x\")'", "echo 'rm -rf x' | at now", "docker exec c rm -rf x",
		// sed
		"sed -n '1e rm x'", "sed 's/a/b/e' x", "sed 's/a/b/w f' x", "sed -n 'w f' x", "sed '1,2{p}' x", "sed '!p' x", "sed p x", "sed 1p x", "sed -f s x",
		"sed -s 1p x", "sed --expression=p x", "sed -i.bak s/a/b/ x", "sed -ie s/a/b/ x", "sed 's,a,b,' x", "sed 's/a/b/;e' x", "sed $X x", "sed 's/a/b/\ne' x",
		"sed s/a*/b/ x", "sed -i s/a/b/ .bashrc", "sed -e s/a/b/ -e 'w f' x", "sed", "sed -E", "sed 's/a/b/ # x' x",
		// paths
		"touch .env", "touch ~/.bashrc", "cp x .git/hooks/pre-commit", "mv x $HOME/.ssh/authorized_keys", "echo x > .env", "echo x >> ~/.profile",
		"echo x | tee .env", "echo x | tee -a ~/.bashrc", "tee x .ssh/config", "cp -t .git x", "cp --target-directory=.git x", "cp -t.git/x y", "dd of=.env",
		"touch .EN\\V", "rm .gi*", "rm x/../.git/config", "ln -s x .envrc", "mkdir .vscode", "chmod +x .git/hooks/x", "sudo touch .env", "install x .git/y",
		"cp {x,.git/y}", "truncate -s 0 .netrc", "chmod u+x .idea/x", "echo x >&.env", "echo x &>.env", "touch \"$X/.git/config\"",
		// removals
		"rm /", "rm -r /", "rm *", "rm ./*", "rm x/*", "rm ~", "rm ~/", "rm $HOME", "rm /etc", "rm -r /usr/", "rmdir /opt", "rm .", "rm ..", "rm ../..", "rm /home/u",
		"rm /work/repo", "rm -r /work", "rm -- /", "rm ?*", "rm $X/", "rm -r \"$X\"", "rm ~bob", "rm //", "rm /etc/../usr", "sudo rmdir /x", "unlink /x",
	}
	for _, command := range dangerous {
		for _, mode := range []permission.Mode{permission.Default, permission.AcceptEdits, permission.Bypass} {
			c := shellContext()
			c.Mode, c.Rules = mode, rules(t, "allow sh")
			if d := permission.Evaluate(c, shellTool(), shellInput(t, command), nil); d.String() != safety || !d.Immune {
				t.Errorf("%q in %s: %q (%s)", command, mode, d, d.Message)
			}
		}
	}
	for _, command := range []string{
		"git add x", "git log --format=json > x", "prettier --format x", "rm x", "rm -r x", "rm -f x", "rmdir x", "chmod 755 x", "chmod u+w x", "chmod +w x", "chown a b", "kill 1",
		"kill -15 1", "make dd", "echo add if=x", "echo x > /dev/null", "echo x 2> /dev/stderr", "touch .gitignore", "touch x.env", "sed -n 1,5p x > y",
		"sed s/a/b/g x > y", "sed -E -e 's#a{2}#b#' x > y", "sed -i 's|a|b|2' x", "rm a/b*", "rm /work/repo/x", "rm ~/x/y", "cp .gitignore x", "curl x > y",
		"firm -rf x", "git commit -m 'kill-9'", "rm x/..y", "tee x",
	} {
		c := shellContext()
		c.Mode = permission.Bypass
		if d := permission.Evaluate(c, shellTool(), shellInput(t, command), nil); d.String() != "allow: mode bypass" {
			t.Errorf("%q: %q (%s)", command, d, d.Message)
		}
	}
}

func TestShellEdits(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"mkdir x", "mkdir -p a/b", "touch /work/repo/x", "rm x", "rm -r x/y", "mv a b", "cp -r a b", "sed -i s/a/b/ x", "sed -i -e s/a/b/ x", "rmdir x",
		"mkdir x && touch x/y", "ls && rm x", "rm -- x", "rm a/*.o",
	} {
		c := shellContext()
		c.Mode = permission.AcceptEdits
		if d := permission.Evaluate(c, shellTool(), shellInput(t, command), nil); d.String() != "allow: tool check" {
			t.Errorf("%q: %q (%s)", command, d, d.Message)
		}
		c.Mode = permission.DontAsk
		if d := permission.Evaluate(c, shellTool(), shellInput(t, command), nil); d.String() != "allow: tool check" {
			t.Errorf("%q unattended: %q (%s)", command, d, d.Message)
		}
		c.Mode = permission.Default
		if d := permission.Evaluate(c, shellTool(), shellInput(t, command), nil); d.Behavior != ask {
			t.Errorf("%q in default: %q", command, d)
		}
	}
	for _, command := range []string{
		"mkdir", "mkdir /work/repo2/x", "touch ../x", "mv a /etc/b", "cp /etc/passwd x", "rm x; curl y", "cd /etc && rm x", "X=1 rm x", "rm x > y", "touch $X",
		"touch x/../../y", "/tmp/rm x", "./mkdir x", "cp --target-directory=/etc x", "cp -t/etc x", "cp -t /etc x", "touch -r /etc/x y", "touch ~/x", "sudo rm x",
		"tee x", "ln -s a b", "chmod 700 x", "make x", "rm *x/../../../y", "cp a{b,c} d", "sed -n 1p /etc/x",
	} {
		c := shellContext()
		c.Mode = permission.AcceptEdits
		if d := permission.Evaluate(c, shellTool(), shellInput(t, command), nil); d.Behavior != ask {
			t.Errorf("%q: %q (%s)", command, d, d.Message)
		}
		c.Mode = permission.DontAsk
		if d := permission.Evaluate(c, shellTool(), shellInput(t, command), nil); d.Behavior != deny {
			t.Errorf("%q unattended: %q (%s)", command, d, d.Message)
		}
	}
	c := shellContext()
	c.Mode = permission.AcceptEdits
	for input, want := range map[string]permission.Behavior{
		`{"command":"rm x","working_directory":"/etc"}`: ask,
		`{"command":"rm x","working_directory":"sub"}`:  allow,
		`{"command":"rm ../../x","cwd":"sub"}`:          ask,
		`{"command":"rm x","cwd":5}`:                    ask,
		`{"command":"rm x","CWD":"/etc"}`:               ask,
	} {
		if d := permission.Evaluate(c, shellTool(), json.RawMessage(input), nil); d.Behavior != want {
			t.Errorf("%s: %q", input, d)
		}
	}
}

func TestShellArguments(t *testing.T) { // T-87
	t.Parallel()
	for _, input := range []string{`{"command":5}`, `{"Command":"ls"}`, `{"command":"ls","COMMAND":"rm -rf /"}`, `[]`, `{"x":"ls"}`, `{"command":["ls"]}`, `x`} {
		for _, c := range []permission.Context{{}, {Mode: permission.Bypass}, {Mode: permission.Default, Rules: rules(t, "allow sh")}} {
			if d := permission.Evaluate(c, shellTool(), json.RawMessage(input), nil); d.String() != safety {
				t.Errorf("%s: %q", input, d)
			}
		}
	}
	def := permission.Tool{Name: "sh", Matcher: "shell:run"}
	if d := permission.Evaluate(permission.Context{Mode: permission.Explore}, def, json.RawMessage(`{"run":"ls"}`), nil); d.String() != reads {
		t.Errorf("an argument with another name: %q", d)
	}
	for command, want := range map[string]permission.Behavior{"make": allow, "ls": allow, "rm -rf /": ask, "$(x)": ask} {
		if d := permission.Evaluate(permission.Context{}, shellTool(), shellInput(t, command), nil); d.Behavior != want {
			t.Errorf("%s without configuration: %q", command, d)
		}
	}
}

func TestShellSuggestions(t *testing.T) { // P8, P9
	t.Parallel()
	for command, want := range map[string][]string{
		"git commit -m x":                {"git commit:*"},
		"make":                           {"make:*"},
		"make build":                     {"make build:*"},
		"curl https://x":                 {"curl:*"},
		"npm run x && npm run y; make a": {"npm run:*", "make a:*"},
		"ls && git push":                 {"git push:*"},
		"echo hi":                        {"echo hi:*"},
		"LANG=C make x":                  {"make x:*"},
		"FOO=1 make x":                   {"FOO=1 make x"},
		"python x.py 'a b' *":            {`python x.py 'a b' \*`},
		"sudo ls":                        {"sudo ls"},
		"rm x":                           {"rm x"},
		"rm -rf x":                       nil,
		"rm -rf x; make y":               {"make y:*"},
		"make y > out":                   {"make y:*", "> out"},
		"bash -c 'make y'":               {"bash -c 'make y'", "make y:*"},
		"cd x && make y":                 {"cd x", "make y:*"},
		"a;b;c;d;e;f;g":                  {"a:*", "b:*", "c:*", "d:*", "e:*"},
		"make $(x)":                      nil,
	} {
		c := shellContext()
		d := permission.Evaluate(c, shellTool(), shellInput(t, command), nil)
		var got []string
		for _, r := range d.Suggestions {
			got = append(got, r.Content)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", command, diff)
		}
		if d.Immune || len(got) == 5 {
			continue
		}
		c.Rules = d.Suggestions // accepted: it does not ask again
		if again := permission.Evaluate(c, shellTool(), shellInput(t, command), nil); again.Behavior != allow {
			t.Errorf("%q asks again after %v: %q", command, got, again)
		}
	}
	c := shellContext()
	r := rules(t, "allow sh(git commit:*)")[0]
	if !permission.Covers(c, r, shellTool(), shellInput(t, "git commit -m y"), nil) ||
		permission.Covers(c, r, shellTool(), shellInput(t, "git commit -m y; make"), nil) {
		t.Error("what a suggestion covers")
	}
}
