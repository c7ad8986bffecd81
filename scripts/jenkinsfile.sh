#!/bin/sh
# Holds contrib/jenkins/Jenkinsfile against what Jenkins takes, as far as that can be done without Jenkins: Groovy parses
# it, and its structure is held against the schema of Declarative Pipeline. By hand: it needs java, mvn, go, and the
# schema, which is the file pipeline-model-api/src/main/resources/ast-schema.json of Jenkins' plugin
# pipeline-model-definition.
#
#     scripts/jenkinsfile.sh ast-schema.json [Jenkinsfile]
#
# What steps there are, and their parameters, only Jenkins knows, with its plugins.
set -eu
schema=$(realpath "${1:?usage: scripts/jenkinsfile.sh ast-schema.json [Jenkinsfile]}")
file=$(realpath "${2:-contrib/jenkins/Jenkinsfile}")
here=$(cd "$(dirname "$0")" && pwd)
version=4.0.33
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for artifact in groovy groovy-json; do
	mvn -q -B dependency:copy -Dartifact="org.apache.groovy:$artifact:$version" -DoutputDirectory="$work"
done
java -cp "$work/*" groovy.ui.GroovyMain "$here/jenkinsfile.groovy" "$file" >"$work/pipeline.json"
# A reference of the schema's, in a definition that nothing uses, leads nowhere.
sed 's|"#/definitions/"|"#/definitions/mapArgumentList"|' "$schema" >"$work/schema.json"
cd "$here/.." && go run ./scripts/schema "$work/schema.json" "$work/pipeline.json"
