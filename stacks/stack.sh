#!/bin/bash
# The program of every stack. It makes a site in the root that it lies in, and serves it in an environment.
#
#   stack.sh install              make the site from the installed packages, check it, and keep it below site/
#   stack.sh serve CODE HOME      copy the site, start it, print how it is reached, and stay until asked to stop
#   stack.sh control HOME WORD... restart web|php|database|varnish|all, clear, or open ADDRESS; returns when done
#
# CODE and HOME are directories for this site only: the code that PHP reads is in CODE, all else in HOME. Everything
# listens on 127.0.0.1, on free ports, and where the site was opened for clients elsewhere. MariaDB has a socket only.
# All processes are children of this one.
#
# site.sh says what is particular to a site. It has the functions
#   site_install     makes $site/code and the database
#   site_configure   writes what depends on where the site runs: $code, $socket
#   site_login       prints the Cookie header's value of a user who has logged in at the address $1
#   site_clear       clears the site's own caches
# and the variables that docs/stacks.md tells of.
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TZ=UTC HOME=/root
umask 022

top=$(cd "$(dirname "$0")" && pwd)
site=$top/site
name=stack.test # the site's own name, the same everywhere: pages contain it
db_user=site db_password=site # the socket is the lock
php=$(basename "$(ls -d /etc/php/[0-9]* | sort -V | tail -1)")

die() {
	echo "stack: $*" >&2
	exit 1
}

# shellcheck source=/dev/null
. "$top/settings"
# shellcheck source=/dev/null
. "$top/site.sh"

# The settings of a run: TARE_STACK=opcache=off,...
opcache=on
for pair in ${TARE_STACK:+${TARE_STACK//,/ }}; do
	case $pair in
	opcache=on | opcache=off) opcache=${pair#*=} ;;
	*) die "there is no setting $pair" ;;
	esac
done

# --- child processes --------------------------------------------------------------------------------------------------

# spawn NAME ARGV... starts a child and has its end reported. It gets a process group of its own: Apache ends its whole
# group when it stops, and so all of a server can be ended at once.
spawn() {
	local child=$1 tries=0
	shift
	(
		trap - TERM INT
		set +e
		setsid "$@" >>"$home/log/$child" 2>&1 </dev/null 3>&- &
		echo $! >"$home/pid/$child.new" && mv "$home/pid/$child.new" "$home/pid/$child"
		pid=$!
		wait $pid
		echo "died $child $pid $?" >&3
	) &
	until [ -e "$home/pid/$child" ]; do
		[ $((tries += 1)) -lt 3000 ] || die "$child was not started"
		sleep 0.01
	done
}

# pid_of NAME prints the process id of a child that was started and not stopped.
pid_of() { cat "$home/pid/$1" 2>/dev/null; }

runs() { local pid; pid=$(pid_of "$1") && kill -0 "$pid" 2>/dev/null; }

# stop NAME SIGNAL ends a child.
stop() {
	local pid tries=0
	pid=$(pid_of "$1") || return 0
	rm -f "$home/pid/$1"
	kill "-$2" "$pid" 2>/dev/null || return 0
	while kill -0 "$pid" 2>/dev/null; do
		[ $((tries += 1)) -ne 6000 ] || kill -9 "$pid" 2>/dev/null || return 0
		sleep 0.02
	done
}

# kill_all ends all children at once. A site without one of its servers only has errors to answer.
kill_all() {
	local file
	for file in "$home"/pid/*; do
		[ ! -e "$file" ] || kill -9 -- "-$(cat "$file")" 2>/dev/null || true
		rm -f "$file"
	done
}

# await NAME WHAT COMMAND... waits until a child answers, as the command says.
await() {
	local child=$1 tries=0
	shift
	until "$@" >/dev/null 2>&1; do
		runs "$child" || die "$child ended during its start: $(told "$child")"
		[ $((tries += 1)) -lt 3000 ] || die "$child does not answer: $(told "$child")"
		sleep 0.02
	done
}

# told NAME prints what a child said last, in a line.
told() { { grep -iE 'error|fatal|emerg|denied|full|cannot' "$home/log/$1" || cat "$home/log/$1"; } 2>/dev/null | tail -3 | tr '\n' ' '; }

listens() { (exec 4<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port VARIABLE chooses a port on which nothing listens.
free_port() {
	while listens "$next_port"; do next_port=$((next_port + 1)); done
	printf -v "$1" %s "$next_port"
	next_port=$((next_port + 1))
}

# open_at ADDRESS lets clients elsewhere reach the site. Its web servers are started again, once for each address.
opened=
open_at() {
	case " 127.0.0.1 $opened " in
	*" 0.0.0.0 "* | *" $1 "*) return ;;
	esac
	opened+=" $1"
	stop varnish TERM && restart web && start_varnish
}

# listeners PORT prints where a server listens. The address of all interfaces has the loopback's in it.
listeners() {
	local address
	case " $opened " in
	*" 0.0.0.0 "*) echo "0.0.0.0:$1" ;;
	*) for address in 127.0.0.1 $opened; do echo "$address:$1"; done ;;
	esac
}

# --- the servers ------------------------------------------------------------------------------------------------------

start_database() {
	rm -f "$socket"
	spawn database mariadbd --no-defaults --user=mysql --datadir="$home/data" --socket="$socket" --tmpdir="$home/tmp" \
		--pid-file="$home/run/mariadbd.pid" --skip-networking --skip-name-resolve --innodb-buffer-pool-size=128M \
		--innodb-log-file-size=32M --performance-schema=OFF --log-warnings=1 "$@"
	await database mariadb-admin --no-defaults --socket="$socket" --user=root ping
}

sql() { mariadb --no-defaults --socket="$socket" --user=root "$@"; }

# php_settings are for each PHP: prefix and what stands between name and value.
php_settings() {
	# It is on by itself, and PHP warns of each request in which it is to be turned on.
	[ $opcache = on ] || echo "$1opcache.enable${2}0"
	printf '%s%s\n' \
		"$1" "memory_limit${2}256M" "$1" "session.save_path$2$home/tmp" \
		"$1" "upload_tmp_dir$2$home/tmp" "$1" "sys_temp_dir$2$home/tmp" "$1" "max_execution_time${2}600"
}

start_apache() {
	local m=/usr/lib/apache2/modules
	{
		cat <<-CONF
			ServerRoot $home/run
			ServerName $name
			PidFile $home/run/apache.pid
			Mutex file:$home/run default
			ErrorLog $home/log/apache
			LoadModule mpm_prefork_module $m/mod_mpm_prefork.so
			LoadModule authz_core_module $m/mod_authz_core.so
			LoadModule alias_module $m/mod_alias.so
			LoadModule dir_module $m/mod_dir.so
			LoadModule env_module $m/mod_env.so
			LoadModule filter_module $m/mod_filter.so
			LoadModule mime_module $m/mod_mime.so
			LoadModule rewrite_module $m/mod_rewrite.so
			LoadModule setenvif_module $m/mod_setenvif.so
			LoadModule php_module $m/libphp$php.so
			User www-data
			Group www-data
			TypesConfig /etc/mime.types
			Timeout 300
			KeepAlive On
			KeepAliveTimeout 60
			MaxKeepAliveRequests 0
			StartServers 5
			MinSpareServers 5
			MaxSpareServers 10
			MaxRequestWorkers 150
			DocumentRoot "$code"
			DirectoryIndex index.php
			<Directory "$code">
				Options FollowSymLinks
				AllowOverride All
				Require all granted
			</Directory>
			<FilesMatch "\\.php$">
				SetHandler application/x-httpd-php
			</FilesMatch>
		CONF
		listeners "$port_apache" | sed 's/^/Listen /'
		php_settings 'php_admin_value ' ' '
	} >"$home/etc/apache.conf"
	rm -f "$home/run/apache.pid" # one that was killed left it, and its number may be another process's by now
	spawn apache apache2 -D FOREGROUND -f "$home/etc/apache.conf"
	await apache listens "$port_apache"
}

start_fpm() {
	{
		cat <<-CONF
			[global]
			error_log = $home/log/fpm
			daemonize = no
			[www]
			user = www-data
			group = www-data
			listen = $home/run/fpm.sock
			listen.owner = www-data
			pm = ondemand
			pm.max_children = 16
			pm.process_idle_timeout = 1h
			catch_workers_output = yes
		CONF
		php_settings 'php_admin_value[' '] = '
	} >"$home/etc/fpm.conf"
	rm -f "$home/run/fpm.sock"
	spawn fpm "php-fpm$php" --nodaemonize --fpm-config "$home/etc/fpm.conf"
	await fpm test -S "$home/run/fpm.sock"
}

start_nginx() {
	cat >"$home/etc/nginx.conf" <<-CONF
		daemon off;
		user www-data;
		worker_processes 1;
		pid $home/run/nginx.pid;
		error_log $home/log/nginx warn;
		events { worker_connections 1024; }
		http {
			include /etc/nginx/mime.types;
			access_log off;
			sendfile on;
			keepalive_timeout 60;
			keepalive_requests 1000000000;
			client_body_temp_path $home/tmp/body;
			fastcgi_temp_path $home/tmp/fastcgi;
			proxy_temp_path $home/tmp/proxy;
			uwsgi_temp_path $home/tmp/uwsgi;
			scgi_temp_path $home/tmp/scgi;
			server {
				$(listeners "$port_nginx" | sed 's/.*/listen &;/')
				server_name $name;
				root "$code";
				index index.php;
				location / { try_files \$uri \$uri/ /index.php?\$args; }
				location ~ ^(.+\\.php)(/.*)?\$ {
					fastcgi_split_path_info ^(.+\\.php)(/.*)\$;
					include /etc/nginx/fastcgi_params;
					fastcgi_param SCRIPT_FILENAME \$document_root\$fastcgi_script_name;
					fastcgi_param PATH_INFO \$fastcgi_path_info;
					fastcgi_pass unix:$home/run/fpm.sock;
					fastcgi_read_timeout 300;
				}
			}
		}
	CONF
	spawn nginx nginx -e "$home/log/nginx" -c "$home/etc/nginx.conf"
	await nginx listens "$port_nginx"
}

# Varnish keeps pages of users without a session. Cookies that are no session do not matter to a page.
start_varnish() {
	cat >"$home/etc/site.vcl" <<-CONF
		vcl 4.1;
		backend default { .host = "127.0.0.1"; .port = "$port_apache"; .first_byte_timeout = 300s; }
		sub vcl_recv {
			if (req.method != "GET" && req.method != "HEAD") { return (pass); }
			if (req.http.Cookie ~ "$session_cookie") { return (pass); }
			unset req.http.Cookie;
			return (hash);
		}
		sub vcl_backend_response {
			if (beresp.status == 200 && !bereq.http.Cookie) {
				unset beresp.http.Set-Cookie;
				set beresp.ttl = 1h;
				return (deliver);
			}
		}
	CONF
	rm -rf "$home/run/varnish"
	local at=()
	for address in $(listeners "$port_varnish"); do at+=(-a "$address"); done
	spawn varnish varnishd -F -j none -n "$home/run/varnish" "${at[@]}" -T none -f "$home/etc/site.vcl" -s malloc,64m
	await varnish listens "$port_varnish"
}

stop_web() {
	stop nginx TERM
	stop apache TERM
}

# Apache is the process that PHP runs in; its opcode cache ends with it, and so does FPM's.
restart() {
	case $1 in
	web) stop_web && start_apache && start_nginx ;;
	php) stop_web && stop fpm TERM && start_fpm && start_apache && start_nginx ;;
	database) stop database TERM && start_database ;;
	varnish) stop varnish TERM && start_varnish ;;
	all)
		stop varnish TERM && stop_web && stop fpm TERM && stop database TERM
		start_database && start_fpm && start_apache && start_nginx && start_varnish
		;;
	*) die "there is nothing called ${1:-} to restart: web, php, database, varnish or all" ;;
	esac
}

stop_all() {
	local pid
	stop varnish TERM
	stop_web
	stop fpm TERM
	stop database TERM
	exec 3>&- || true
	for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null || true; done
}

# prepare CODE HOME makes the directories and chooses the ports.
prepare() {
	code=$1 home=$2 next_port=18080
	[ "$(id -u)" = 0 ] && chown www-data "$home" 2>/dev/null && chown root "$home" ||
		die "a stack has servers of several users, and files cannot be given to them here; run tare as root, with its files on a disk of this machine (namespace: user=host)"
	mkdir -p "$code" "$home"/{run,log,etc,pid,tmp}
	chmod 755 "$code" "$home" "$home"/{log,etc,pid}
	chmod 1777 "$home/tmp" "$home/run"
	socket=$home/run/db.sock
	[ ${#socket} -lt 104 ] || die "the path $socket is too long for a socket; use a work directory with a shorter path"
	rm -f "$home/control" && mkfifo -m 600 "$home/control"
	exec 3<>"$home/control"
	rm -f "$home"/pid/*
	free_port port_apache
	free_port port_nginx
	free_port port_varnish
}

# reachable DIRECTORY lets the servers' users pass through the directories above it, which are tare's own.
reachable() {
	local dir=$1
	while [ "$dir" != / ]; do
		[ $((0$(stat -c %a "$dir") & 1)) = 1 ] || chmod o+x "$dir" || die "user www-data cannot pass through $dir, and its mode cannot be changed"
		dir=$(dirname "$dir")
	done
	# A shared folder may refuse what the modes allow.
	setpriv --reuid=www-data --regid=www-data --clear-groups test -r "$1/${2:-.}" ||
		die "user www-data, as whom PHP runs, cannot read $1, though its mode is $(stat -c %A "$1"): the mount $(stat -f -c %T "$1") does not let other users in"
}

# page URL fetches a page of the site and prints its body. It fails unless the status is 200.
page() {
	local status
	status=$(curl -sS --max-time 900 --noproxy '*' -H "Host: $name" -o "$home/tmp/page" -w '%{http_code}' "${@:2}" "$1") || return 1
	cat "$home/tmp/page"
	[ "$status" = 200 ] || { echo "status $status"; return 1; }
}

# check ADDRESS PATH PATTERN fails unless the page is what it should be: the status alone says little.
check() {
	local body
	body=$(page "$1$2") || die "unhealthy: $1$2: $(tail -c 300 <<<"$body" | tr '\n' ' ') $(told apache)"
	grep -qF -- "$3" <<<"$body" || die "unhealthy: $1$2 does not contain '$3': $(sed 's/<[^>]*>//g' <<<"$body" | tr -s ' \n' ' ' | head -c 300)"
}

# --- the verbs --------------------------------------------------------------------------------------------------------

install_site() {
	local began=$SECONDS
	rm -rf "$site"
	mkdir -p "$site/code" "$top/work"
	prepare "$site/code" "$top/work"
	trap stop_all EXIT
	mkdir -m 700 "$home/data" && chown mysql "$home/data"
	mariadb-install-db --no-defaults --user=mysql --datadir="$home/data" --auth-root-authentication-method=normal \
		--skip-test-db >"$home/log/install-db" 2>&1 || die "make the database: $(told install-db)"
	start_database --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=OFF # it is made again if the machine dies
	sql -e "CREATE DATABASE site CHARACTER SET binary; CREATE USER '$db_user'@'localhost' IDENTIFIED BY '$db_password'; GRANT ALL ON site.* TO '$db_user'@'localhost'"
	site_install
	chmod -R u=rwX,go=rX "$code"
	site_configure
	start_apache
	check "http://127.0.0.1:$port_apache" "$pages_front" "$pattern"
	site_login "http://127.0.0.1:$port_apache" >"$site/cookie.new"
	[ -s "$site/cookie.new" ] || die "the user could not log in"
	chmod 600 "$site/cookie.new" && mv "$site/cookie.new" "$site/cookie"
	stop_web
	site_clear
	stop database TERM
	trap - EXIT
	stop_all
	cp -a "$home/data" "$site/data"
	# A copy has all of the site, and nobody reads manuals there. This halves what environments are given.
	rm -rf "$top/work" "${package_files[@]}" /var/lib/mysql /usr/share/{doc,man,locale} /var/lib/apt/lists
	echo "installed in $((SECONDS - began)) s" >&2
	# The same way that an environment goes: copied, started, asked for its pages.
	verify_site
}

verify_site() {
	begin "$top/verify/code" "$top/verify/home"
	trap stop_all EXIT
	local base cookie p
	cookie=$(cat "$site/cookie")
	for base in "$port_apache" "$port_nginx" "$port_varnish"; do
		for p in "$pages_front" "$pages_heavy" "$pages_other"; do
			check "http://127.0.0.1:$base" "$p" "$pattern"
		done
		page "http://127.0.0.1:$base$pages_front" -H "Cookie: $cookie" | grep -qF -- "$pattern_user" ||
			die "unhealthy: the front page at $base does not show that the user is logged in"
		if page "http://127.0.0.1:$base$pages_front" | grep -qF -- "$pattern_user"; then
			die "unhealthy: the front page at $base shows another user as logged in"
		fi
	done
	trap - EXIT
	stop_all
	rm -rf "$top/verify"
}

# begin CODE HOME copies the site and starts it.
begin() {
	local made
	made=$(cat "$top/key")
	mkdir -p "$1" "$2"
	prepare "$1" "$2"
	# The code stays when a site is started again in the same place; the data are always those of the installation.
	if [ "$(cat "$home/copied" 2>/dev/null)" != "$made $code" ]; then
		rm -rf "$home/copied" "$code"
		mkdir -p "$code"
		cp -r --preserve=mode,timestamps "$site/code/." "$code/" || die "copy the code to $code failed: $(df -h "$code" | tail -1)"
		echo "$made $code" >"$home/copied"
	fi
	rm -rf "$home/data"
	cp -a "$site/data" "$home/data" || die "copy the database to $home failed: $(df -h "$home" | tail -1)"
	cp "$site/cookie" "$home/cookie" && chmod 600 "$home/cookie"
	sync -f "$code" "$home" || true
	reachable "$code" index.php
	reachable "$home"
	site_configure
	start_database
	start_fpm
	start_apache
	start_nginx
	start_varnish
}

# describe NAME VALUE... prints a line of JSON.
describe() {
	local line=
	while [ $# -gt 0 ]; do
		line+="${line:+,}\"$1\":\"${2//\"/\\\"}\""
		shift 2
	done
	echo "{$line}"
}

serve() {
	local word rest
	trap 'stop_all; exit 1' EXIT
	trap 'trap - EXIT; stop_all; exit 0' TERM INT HUP
	begin "$1" "$2"
	check "http://127.0.0.1:$port_apache" "$pages_front" "$pattern"
	describe name "$(cat "$top/name")" key "$(cat "$top/key")" host "$name" cookie "$home/cookie" program "$top/stack.sh" \
		home "$home" code "$code" opcache "$opcache" apache "127.0.0.1:$port_apache" nginx "127.0.0.1:$port_nginx" \
		varnish "127.0.0.1:$port_varnish" front "$pages_front" heavy "$pages_heavy" other "$pages_other" \
		pattern "$pattern" user "$pattern_user"
	while read -r -u 3 word rest; do
		case $word in
		died)
			# shellcheck disable=SC2086
			set -- $rest
			[ "$(pid_of "$1")" = "$2" ] || continue # it was stopped on purpose
			rm -f "$home/pid/$1"
			kill_all
			die "$1 has ended with status $3: $(told "$1")"
			;;
		do)
			# shellcheck disable=SC2086
			set -- $rest
			case $1 in
			restart) restart "${2:-}" ;;
			clear) site_clear ;;
			open) open_at "${2:-}" ;;
			esac
			echo done >"$home/reply"
			;;
		esac
	done
}

# control HOME WORD... asks the process that serves.
control() {
	home=$1
	shift
	case "$*" in
	"restart web" | "restart php" | "restart database" | "restart varnish" | "restart all" | clear) ;;
	"open "*) [[ $2 =~ ^[0-9]{1,3}(\.[0-9]{1,3}){3}$ ]] || die "open: '$2' is no IPv4 address" ;;
	*) die "'$*' is not restart web, restart php, restart database, restart varnish, restart all, clear or open ADDRESS" ;;
	esac
	[ -p "$home/control" ] || die "no stack runs in $home"
	exec 5>"$home/lock"
	flock 5
	rm -f "$home/reply" && mkfifo -m 600 "$home/reply"
	echo "do $*" >"$home/control"
	exec 6<>"$home/reply"
	read -r -t 300 -u 6 answer || die "$* was not done: see the end of the stack's log"
	[ "$answer" = done ] || die "$*: $answer"
}

verb=${1:-}
shift || true
case $verb in
install) install_site ;;
serve) serve "$@" ;;
control) control "$@" ;;
*) die "usage: stack.sh install | serve CODE HOME | control HOME WORD..." ;;
esac
