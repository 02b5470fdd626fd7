package toolkit

import (
	"reflect"
	"slices"
	"strings"
)

// field is a member of the JSON object that encoding/json makes of a struct.
type field struct {
	reflect.StructField
	name    string
	omitted bool // when it is empty: omitempty or omitzero
	quoted  bool // a number or bool written as a string
	tagged  bool
	depth   int
}

// fields lists the members of a struct as encoding/json sees them: fields of embedded structs are
// promoted unless the embedding has a name; of two of one name the shallower wins, then the one
// with a tag, else neither counts.
func fields(t reflect.Type) []field {
	all := promoted(t, 0, nil)
	return slices.DeleteFunc(slices.Clone(all), func(f field) bool {
		return slices.ContainsFunc(all, func(o field) bool {
			switch {
			case o.name != f.name || slices.Equal(o.Index, f.Index):
				return false
			case o.depth != f.depth:
				return o.depth < f.depth
			}
			return o.tagged || !f.tagged
		})
	})
}

func promoted(t reflect.Type, depth int, index []int) (all []field) {
	for i := range t.NumField() {
		f := field{StructField: t.Field(i), depth: depth}
		f.Index = append(slices.Clone(index), i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if f.Anonymous && name == "" && inner.Kind() == reflect.Struct {
			if inner != t { // a type that embeds itself adds nothing
				all = append(all, promoted(inner, depth+1, f.Index)...)
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		f.name, f.tagged = name, name != ""
		if name == "" {
			f.name = f.Name
		}
		for option := range strings.SplitSeq(options, ",") {
			f.omitted = f.omitted || option == "omitempty" || option == "omitzero"
			f.quoted = f.quoted || option == "string" && quotable(inner.Kind())
		}
		all = append(all, f)
	}
	return all
}

// quotable says whether encoding/json heeds the option string.
func quotable(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Float64 || k == reflect.String
}
