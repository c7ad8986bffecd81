# MediaWiki of Debian's package. The code is a copy with its own LocalSettings.php, because the package's is a set of
# links between /usr, /var and /etc, and the code is to lie in one directory on any mount.
package_files=(/usr/share/mediawiki /var/lib/mediawiki)
pages_front=/index.php/Front
pages_heavy=/index.php/Heavy
pages_other=/index.php/Page_7
pattern="This page is part of a test site"
pattern_user='"wgUserName":"Reader"'
session_cookie='(_session|UserID|Token)='

mw() { php -d memory_limit=512M -d sys_temp_dir="$home/tmp" "$code/maintenance/$1.php" "${@:2}" --quiet; }

site_install() {
	local word
	# Of the other languages' texts a site in English reads nothing, and they are half of all files.
	(cd /usr/share/mediawiki && find -L . -regextype posix-extended \
		\( -regex './(config|docs|extensions|extensions-core|images|mw-config|tests|LocalSettings.php)' -prune \) -o \
		\( -path '*/i18n/*.json' ! -name en.json ! -name qqq.json \) -o -type f -print0) >"$home/tmp/files" 2>/dev/null || true
	tar -C /usr/share/mediawiki --null -T "$home/tmp/files" -ch | tar -C "$code" -x
	[ -e "$code/index.php" ] && [ -e "$code/maintenance/install.php" ] || die "the package mediawiki is not where it should be"
	mkdir "$code/images" "$code/extensions"
	head -c 24 /dev/urandom | base64 >"$home/tmp/admin"
	printf reader-of-a-test-site >"$home/tmp/reader"
	php -d sys_temp_dir="$home/tmp" "$code/maintenance/install.php" --quiet --dbtype mysql --dbserver "localhost:$socket" \
		--dbname site --dbuser "$db_user" --dbpass "$db_password" --server "http://$name" --scriptpath "" \
		--passfile "$home/tmp/admin" --confpath "$code" --skins Vector "Test site" Admin >"$home/log/installer" 2>&1 ||
		die "MediaWiki's installer: $(tail -3 "$home/log/installer" | tr '\n' ' ')"
	cat "$top/recipe/settings.php" >>"$code/LocalSettings.php"
	site_configure
	mw createAndPromote --force Reader "$(cat "$home/tmp/reader")" >/dev/null
	php "$top/recipe/content.php" "$home/tmp" "$PAGES" "$COMMENTS" "$USERS" "$PICTURES"
	php "$top/recipe/users.php" "$code" "$USERS" >/dev/null
	mw importImages --user=Admin --extensions=png "$home/tmp/pictures" >"$home/log/pictures" 2>&1 || die "pictures: $(told pictures)"
	mw importDump --no-updates "$home/tmp/content.xml" >"$home/log/import" 2>&1 || die "import: $(told import)"
	mw rebuildrecentchanges >/dev/null
	mw refreshLinks >/dev/null
	mw initSiteStats --update --active >/dev/null
	mw runJobs >/dev/null
	word=$(sql -N -e "SELECT COUNT(*) FROM site.page WHERE page_namespace = 0")
	[ "$word" -ge "$PAGES" ] || die "only $word of $PAGES pages were imported: $(told import)"
}

site_configure() {
	cat >"$code/stack-config.php" <<-CONF
		<?php
		\$wgDBserver = 'localhost:$socket';
		\$wgTmpDirectory = '$home/tmp';
		\$wgUploadDirectory = '$code/images';
	CONF
	chmod 644 "$code/stack-config.php"
}

# A session is kept in the database for years, so that the cookie of the installation is good in every copy.
site_login() {
	local jar=$home/tmp/jar token
	api() { page "$address/api.php?format=json$1" -b "$jar" -c "$jar" "${@:2}"; }
	local address=$1
	: >"$jar"
	token=$(api '&action=query&meta=tokens&type=login' | php -r 'echo json_decode(stream_get_contents(STDIN))->query->tokens->logintoken;')
	printf %s "$token" >"$home/tmp/token"
	api '&action=login' --data-urlencode lgname=Reader --data-urlencode "lgpassword@$home/tmp/reader" \
		--data-urlencode "lgtoken@$home/tmp/token" | grep -q '"result":"Success"' || die "the user Reader could not log in"
	awk -F'\t' '$0 !~ /^# / && NF == 7 && $6 ~ /^site/ { printf "%s%s=%s", sep, $6, $7; sep = "; " } END { print "" }' "$jar"
	rm -f "$jar" "$home/tmp/token"
}

# The parser cache and all other objects are in the database, but for APCu, which ends with PHP.
site_clear() {
	sql -e "DELETE FROM site.objectcache WHERE keyname NOT LIKE '%MWSession%'; TRUNCATE site.l10n_cache; TRUNCATE site.module_deps"
}
