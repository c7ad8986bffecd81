// Prints a Declarative Pipeline as the JSON that its schema describes: jenkinsfile.groovy FILE. Groovy's own parser reads
// the file. What is no call, assignment or block where Declarative wants one is an error.
import groovy.json.JsonOutput
import org.codehaus.groovy.ast.builder.AstBuilder
import org.codehaus.groovy.ast.expr.*
import org.codehaus.groovy.ast.stmt.*
import org.codehaus.groovy.control.CompilePhase

def fail(node, String what) {
    throw new IllegalArgumentException("line ${node.lineNumber}: ${what}: ${node.text}")
}

// statements are what stands in a block: calls, assignments, and words such as "any".
def statements(ClosureExpression block) {
    block.code.statements.collect { it instanceof ExpressionStatement ? it.expression : fail(it, 'no expression') }
}

def arguments(MethodCallExpression call) {
    def a = call.arguments
    a instanceof TupleExpression ? a.expressions : fail(call, 'no arguments')
}

def name(MethodCallExpression call) { call.methodAsString }

// inner is the block of a call that has nothing else.
def inner(MethodCallExpression call) {
    def a = arguments(call)
    a.size() == 1 && a[0] instanceof ClosureExpression ? a[0] : fail(call, 'no block')
}

def raw(e) {
    e instanceof ConstantExpression ? [isLiteral: true, value: e.value] : [isLiteral: false, value: '${' + e.text + '}']
}

def named(e) { e.mapEntryExpressions.collect { [key: it.keyExpression.text, value: raw(it.valueExpression)] } }

// step is a step or a condition, with the steps inside it if it has a block.
def step(e) {
    if (!(e instanceof MethodCallExpression)) {
        fail(e, 'no step')
    }
    def all = arguments(e)
    def block = all && all[-1] instanceof ClosureExpression ? all[-1] : null
    def given = block ? all[0..<-1] : all
    def out = [name: name(e)]
    if (given.size() == 1 && given[0] instanceof MapExpression) { // also named arguments alone
        out.arguments = named(given[0])
    } else {
        out.arguments = given.size() == 1 ? raw(given[0]) : given.collect { raw(it) }
    }
    if (block) {
        out.children = statements(block).collect { step(it) }
    }
    out
}

def branch(ClosureExpression block) { [name: 'default', steps: statements(block).collect { step(it) }] }

def environment(ClosureExpression block) {
    statements(block).collect {
        it instanceof BinaryExpression && it.operation.text == '=' ?
                [key: it.leftExpression.text, value: raw(it.rightExpression)] : fail(it, 'no assignment')
    }
}

def agent(MethodCallExpression call) {
    def a = arguments(call)[0]
    if (a instanceof ClosureExpression) {
        def kind = step(statements(a)[0])
        return kind.arguments instanceof List ? [type: kind.name, arguments: kind.arguments] :
                [type: kind.name, argument: kind.arguments]
    }
    [type: a.text]
}

def post(ClosureExpression block) {
    [conditions: statements(block).collect { [condition: name(it), branch: branch(inner(it))] }]
}

def stage(MethodCallExpression call) {
    def all = arguments(call)
    if (name(call) != 'stage' || all.size() != 2 || !(all[0] instanceof ConstantExpression)) {
        fail(call, 'no stage with a name and a block')
    }
    section([name: all[0].value], all[1])
}

// section adds what stands in a pipeline or a stage. What Declarative does not know is left for the schema to refuse.
def section(Map out, ClosureExpression block) {
    statements(block).each {
        def key = name(it)
        if (out.containsKey(key) || key == 'steps' && out.branches) {
            fail(it, 'given twice')
        }
        switch (key) {
            case 'agent': out.agent = agent(it); break
            case 'environment': out.environment = environment(inner(it)); break
            case 'stages': out.stages = statements(inner(it)).collect { s -> stage(s) }; break
            case 'steps': out.branches = [branch(inner(it))]; break
            case 'post': out.post = post(inner(it)); break
            case 'when': out.when = [conditions: statements(inner(it)).collect { c -> step(c) }]; break
            default: out[key] = it.text
        }
    }
    out
}

def nodes = new AstBuilder().buildFromString(CompilePhase.CONVERSION, false, new File(args[0]).getText('UTF-8'))
def top = nodes[0].statements
if (top.size() != 1 || !(top[0] instanceof ExpressionStatement) || name(top[0].expression) != 'pipeline') {
    throw new IllegalArgumentException('there is something beside pipeline { }')
}
println JsonOutput.prettyPrint(JsonOutput.toJson([pipeline: section([:], inner(top[0].expression))]))
