package events_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// wireTypes are the Go types that travel, by their name in the document.
// (Definitions are toolkit's; they travel all the same.)
func wireTypes() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for _, v := range []any{
		events.ToolCalls{},
		events.Call{},
		events.Context{},
		events.ToolWork{},
		events.ToolResultStart{},
		events.ToolResult{},
		events.ResultMeta{},
		events.ToolResultDelta{},
		events.CancelCalls{},
		events.Announce{},
		events.ToolsRequest{},
		events.ToolsReply{},
		events.ToolRequest{},
		events.ToolInfo{},
		events.TurnRequest{},
		events.TurnReply{},
		events.CallStatus{},
		events.ResultRequest{},
		events.CancelRequest{},
		events.CancelReply{},
		events.CancelOutcome{},
		toolkit.Definition{},
		toolkit.Backoff{},
		events.DeadRequest{},
		events.DeadReply{},
		events.DeadRef{},
		events.DeadLetter{},
		events.SessionRequest{},
		events.SessionInfo{},
		events.SessionsRequest{},
		events.SessionsReply{},
		events.SessionSet{},
		events.GroupsRequest{},
		events.GroupsReply{},
		events.GroupInfo{},
		events.StateRequest{},
		events.StateReply{},
		events.ConfigReply{},
		events.ConfigSet{},
		toolkit.Tuning{},
		toolkit.Preset{},
		events.AliveRequest{},
		events.AliveReply{},
		events.Rule{},
		events.Question{},
		events.UserConfirmResult{},
		events.ExternalExecutionResult{},
		events.Vote{},
		events.Decided{},
		events.AnswerJudged{},
		events.SuspendCall{},
		events.CheckRequest{},
		permission.Check{},
		events.QuestionsRequest{},
		events.QuestionsReply{},
		events.OpenQuestion{},
		events.QuestionRequest{},
		events.QuestionReply{},
		events.JudgedRequest{},
		events.DecisionsRequest{},
		events.DecisionsReply{},
		events.Decision{},
		events.LifeRequest{},
		events.LifeReply{},
		events.LifeEvent{},
		events.PermitRequest{},
		events.PermitReply{},
		events.ReplayRequest{},
		events.ReplayReply{},
		events.ReplayChange{},
		events.SessionRule{},
	} {
		types[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	return types
}

// Every struct with JSON fields that is declared is compared with the document.
func TestWireTypesAreComplete(t *testing.T) {
	t.Parallel()
	known := wireTypes()
	for _, file := range []string{"types.go", "api.go", "sessions.go", "questions.go", "questions_api.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s, ok := spec.Type.(*ast.StructType)
			if tagged := ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool { return f.Tag != nil }); tagged && known[spec.Name.Name] == nil {
				t.Errorf("%s.%s is not compared with docs/asyncapi.yaml", file, spec.Name.Name)
			}
			return true
		})
	}
}
