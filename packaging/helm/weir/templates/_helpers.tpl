{{- define "weir.labels" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.jobsNamespace" -}}
{{ .Values.kubernetes.namespace | default "weir-jobs" }}
{{- end }}

{{- define "weir.jobsAccount" -}}
{{ .Values.kubernetes.service_account | default "weir-job" }}
{{- end }}

{{- define "weir.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "weir.configuration" -}}
{{- $kubernetes := merge (dict "enabled" true) .Values.kubernetes (dict "init_image" (include "weir.image" .)) }}
{{- $own := dict "listen" "0.0.0.0:7070" "kubernetes" $kubernetes }}
{{- if eq .Values.store.kind "postgres" }}
{{- $_ := set $own "store" .Values.store.url }}
{{- if .Values.store.passwordSecret.name }}
{{- $_ := set $own "store_password_file" (printf "/etc/weir-store/%s" .Values.store.passwordSecret.key) }}
{{- end }}
{{- end }}
{{- if .Values.tls.secret }}
{{- $_ := set $own "tls" (dict "certificate" "/etc/weir-tls/tls.crt" "key" "/etc/weir-tls/tls.key") }}
{{- end }}
{{- dict "scheduler" (merge $own .Values.settings) | toYaml }}
{{- end }}
