{{/* The names are fixed but for the release: rules and the analyzer find targets by the names of their scrape jobs. */}}
{{- define "culprit.name" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if .Values.nameOverride }}{{ printf "%s-%s" .Release.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains "culprit" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-culprit" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "culprit.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{/* Not empty where alerts need the label of the namespace, by which Prometheus's operator narrows the routes of an AlertmanagerConfig. */}}
{{- define "culprit.namespaced" -}}
{{- with .Values.alertmanagerConfig }}
{{- if and .enabled (eq .matcherStrategy "OnNamespace") }}yes{{ end }}
{{- end }}
{{- end }}

{{- define "culprit.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/part-of: culprit
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The label app.kubernetes.io/name is the name of the scrape job, by jobLabel. */}}
{{- define "culprit.exporter.selector" -}}
app.kubernetes.io/name: culprit-exporter
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "culprit.analyzer.selector" -}}
app.kubernetes.io/name: culprit-analyzer
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "culprit.image" -}}
{{- $digest := get .root.Values.image.digests (trimPrefix "culprit-" .name) }}
{{- printf "%s/%s%s" (dig "imageRegistry" "" .root.Values.global | default .root.Values.image.registry) .name (ternary (printf "@%s" $digest) (printf ":%s" (.root.Values.image.tag | default .root.Chart.AppVersion)) (not (empty $digest))) }}
{{- end }}

{{/* Strings are names of secrets. */}}
{{- define "culprit.pullSecrets" -}}
{{- with concat (dig "imagePullSecrets" (list) .Values.global) .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - {{ kindIs "string" . | ternary (dict "name" .) . | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{/* Each component has a service account of its own, so that a right that one needs is not everybody's. */}}
{{- define "culprit.serviceAccount" -}}
{{- $account := (get .root.Values .component).serviceAccount }}
{{- $account.name | default (ternary (printf "%s-%s" (include "culprit.name" .root) (.component | replace "injection" "inject")) "default" $account.create) }}
{{- end }}

{{/* The probe of a server that asks for a certificate or a password sees whether it listens. */}}
{{- define "culprit.probe" -}}
{{- if .web }}
tcpSocket:
  port: {{ .port }}
{{- else }}
httpGet:
  path: {{ .path }}
  port: {{ .port }}
{{- end }}
{{- end }}

{{- define "culprit.monitor.labels" -}}
{{ include "culprit.labels" . }}
{{- if or .Values.monitorLabels (ne .Values.site "prometheus-operator") }}
{{- with .Values.monitorLabels }}
{{ toYaml . }}
{{- end }}
{{- else }}
{{- $labels := dict "release" "kube-prometheus-stack" }}
{{- $found := fromJsonArray (include "culprit.found" (dict "root" . "kind" "Prometheus")) }}
{{- if eq (len $found) 1 }}
{{- $labels = dig "spec" "podMonitorSelector" "matchLabels" (dict) (first $found) }}
{{- end }}
{{- with $labels }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Objects of Prometheus's operator in the cluster, as a JSON list: none where Helm only renders, or without the operator. */}}
{{- define "culprit.found" -}}
{{- $items := list }}
{{- if and (eq .root.Values.site "prometheus-operator") (.root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind)) }}
{{- $items = dig "items" (list) (lookup "monitoring.coreos.com/v1" .kind "" "") }}
{{- end }}
{{- toJson $items }}
{{- end }}

{{/* Fails unless exactly one was found. addresses are those of what was found. */}}
{{- define "culprit.one" -}}
{{- if not .addresses }}
{{- fail (printf "%s is not set, and this cluster shows no %s object of Prometheus's operator (helm template never does): add --set %s=%s" .value .kind .value .example) }}
{{- else if gt (len .addresses) 1 }}
{{- fail (printf "%s is not set, and there are %d: choose by --set %s, from %s" .value (len .addresses) .value (join " or " .addresses)) }}
{{- end }}
{{- first .addresses }}
{{- end }}

{{- define "culprit.prometheusURL" -}}
{{- if .Values.prometheusURL }}
{{- .Values.prometheusURL }}
{{- else if .Values.analyzer.enabled }}
{{- $addresses := list }}
{{- range fromJsonArray (include "culprit.found" (dict "root" . "kind" "Prometheus")) }}
{{- $scheme := ternary "https" "http" (hasKey (dig "spec" "web" (dict) .) "tlsConfig") }}
{{- $addresses = append $addresses (printf "%s://%s.%s:9090%s" $scheme (dig "spec" "serviceName" "prometheus-operated" .) .metadata.namespace (dig "spec" "routePrefix" "" . | trimSuffix "/")) }}
{{- end }}
{{- include "culprit.one" (dict "value" "prometheusURL" "kind" "Prometheus" "addresses" $addresses "example" "http://SERVICE.NAMESPACE:9090") }}
{{- else }}
{{- "http://PROMETHEUS:9090" }}
{{- end }}
{{- end }}

{{/* All members of the cluster of Alertmanagers, by commas. */}}
{{- define "culprit.alertmanagerURLs" -}}
{{- if .Values.alertmanagerURLs }}
{{- join "," .Values.alertmanagerURLs }}
{{- else if .Values.analyzer.enabled }}
{{- $addresses := list }}
{{- range $a := fromJsonArray (include "culprit.found" (dict "root" . "kind" "Alertmanager")) }}
{{- $scheme := ternary "https" "http" (hasKey (dig "spec" "web" (dict) $a) "tlsConfig") }}
{{- $members := list }}
{{- range until (int (dig "spec" "replicas" 1 $a)) }}
{{- $members = append $members (printf "%s://alertmanager-%s-%d.%s.%s:9093%s" $scheme $a.metadata.name . (dig "spec" "serviceName" "alertmanager-operated" $a) $a.metadata.namespace (dig "spec" "routePrefix" "" $a | trimSuffix "/")) }}
{{- end }}
{{- $addresses = append $addresses (join "," $members) }}
{{- end }}
{{- include "culprit.one" (dict "value" "alertmanagerURLs" "kind" "Alertmanager" "addresses" $addresses "example" "'{http://SERVICE.NAMESPACE:9093}'") }}
{{- else }}
{{- "http://ALERTMANAGER:9093" }}
{{- end }}
{{- end }}

{{/* Where people reach the analyzer. Without an ingress that is the reader's own machine, once kubectl forwards the port. */}}
{{- define "culprit.externalURL" -}}
{{- with .Values.analyzer }}
{{- if .externalURL }}
{{- .externalURL }}
{{- else if .ingress.enabled }}
{{- printf "%s://%s" (ternary "https" "http" (not (empty .ingress.tlsSecretName))) (required "analyzer.ingress.host is not set: under which name do people reach the analyzer?" .ingress.host) }}
{{- else }}
{{- printf "%s://localhost:%d" .scheme (int .port) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Annotations by which a Prometheus that is configured by hand finds targets. */}}
{{- define "culprit.scrape.annotations" -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ . | quote }}
{{- end }}

{{/* The folder of the rules whose windows fit the scrape interval. */}}
{{- define "culprit.rules.folder" -}}
{{- $every := .Values.scrapeInterval }}
{{- $seconds := 60 }}
{{- if hasSuffix "ms" $every }}{{ $seconds = 5 }}{{ else if hasSuffix "s" $every }}{{ $seconds = trimSuffix "s" $every | int }}{{ end }}
{{- if le $seconds 5 }}files/rules{{ else if le $seconds 15 }}files/rules/scrape-15s{{ else if le $seconds 30 }}files/rules/scrape-30s{{ else }}files/rules/scrape-60s{{ end }}
{{- end }}
