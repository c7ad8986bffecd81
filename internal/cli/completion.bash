# Completion of tare for bash. It needs no package beside bash itself.
#
# The line is taken apart here and not with COMP_WORDS, which bash breaks at '=', ':', '&' and '?' and hands over with
# its quotes: a spec such as 'vm=qemu?accel=tcg&cpus=2' would arrive in pieces.
_tare() {
    local line=${COMP_LINE:0:COMP_POINT} words=() word='' quote='' begun='' c i
    for ((i = 0; i < ${#line}; i++)); do
        c=${line:i:1}
        if [[ $quote ]]; then
            if [[ $c == "$quote" ]]; then
                quote=''
            elif [[ $c == \\ && $quote == \" ]]; then
                ((i++))
                word+=${line:i:1}
            else
                word+=$c
            fi
        elif [[ $c == \' || $c == \" ]]; then
            quote=$c begun=1
        elif [[ $c == \\ ]]; then
            ((i++))
            word+=${line:i:1} begun=1
        elif [[ $c == [[:space:]] ]]; then
            [[ $begun ]] && words+=("$word")
            word='' begun=''
        else
            word+=$c begun=1
        fi
    done
    local program=${words[0]/#\~\//$HOME/} out directive
    out=$("$program" __complete "${words[@]:1}" "$word" 2>/dev/null) || return
    directive=${out##*:}
    out=${out%:*}
    ((directive & 1)) && return
    # Of --flag=value only the value is answered. What stands before readline's own idea of the word stays where it is.
    local flag='' typed=${2//\\/}
    [[ $word == --*=* ]] && flag=${word%%=*}=
    local kept=${word%"$typed"} candidate shown
    COMPREPLY=()
    if ((directive & 8)); then
        compopt -o filenames 2>/dev/null
        while IFS= read -r candidate; do
            if [[ -d $candidate ]]; then
                COMPREPLY+=("${candidate#"$kept"}")
                continue
            fi
            while IFS= read -r shown; do
                [[ $shown && $candidate == *."$shown" ]] && COMPREPLY+=("${candidate#"$kept"}")
            done <<<"$out"
        done < <(compgen -f -- "$word")
        return
    fi
    local matches=() texts=()
    while IFS= read -r candidate; do
        shown=${candidate#*$'\t'}
        [[ $candidate == *$'\t'* ]] || shown=''
        candidate=$flag${candidate%%$'\t'*}
        [[ $candidate && $candidate == "$word"* && $candidate != "$flag" ]] || continue
        matches+=("${candidate#"$kept"}")
        texts+=("$shown")
    done <<<"$out"
    if ((${#matches[@]} == 0)); then
        ((directive & 4)) || compopt -o default 2>/dev/null
        return
    fi
    ((directive & 2)) && compopt -o nospace 2>/dev/null
    for ((i = 0; i < ${#matches[@]}; i++)); do
        candidate=${matches[i]}
        if [[ ! $quote ]]; then
            printf -v candidate %q "$candidate"
            candidate=${candidate//\\,/,} # a comma means something between braces only, and those are quoted
        fi
        # Only a list is shown, nothing inserted: there is room for what the words mean.
        if ((COMP_TYPE == 63 && ${#matches[@]} > 1)) && [[ ${texts[i]} ]]; then
            candidate="$candidate  (${texts[i]})"
            candidate=${candidate:0:${COLUMNS:-80}-2}
        fi
        COMPREPLY+=("$candidate")
    done
}
complete -o nosort -F _tare tare 2>/dev/null || complete -F _tare tare
