package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ttl is a flag that takes 30d and what Go takes for a duration.
type ttl time.Duration

// String is the duration, for help texts.
func (t *ttl) String() string {
	if *t == 0 {
		return ""
	}
	return time.Duration(*t).String()
}

// Set reads what was given.
func (t *ttl) Set(v string) error {
	d, err := time.ParseDuration(v)
	if days, ok := strings.CutSuffix(v, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(n) * 24 * time.Hour
		if n > maxDays {
			err = fmt.Errorf("more than %d days", maxDays)
		}
	}
	if err != nil || d < time.Second {
		return errors.New("give a time such as 12h or 30d")
	}
	*t = ttl(d)
	return nil
}

const maxDays = 36500

// Type is the word for the value in help texts.
func (t *ttl) Type() string { return "time" }
