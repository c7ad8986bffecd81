# WordPress of Debian's package. The code is a copy with its own wp-config.php: the package's chooses one by the Host
# header, from /etc.
package_files=(/usr/share/wordpress /var/lib/wordpress)
pages_front=/
pages_heavy=/heavy/
pages_other=/post-7/
pattern="This page is part of a test site"
pattern_user='id="wpadminbar"'
session_cookie='wordpress_logged_in'

site_install() {
	local found
	cp -rL /usr/share/wordpress/. "$code/" 2>/dev/null || true # links of the package to what is not installed
	[ -e "$code/wp-load.php" ] && [ -d "$code/wp-content/themes/twentytwentythree" ] ||
		die "the package wordpress is not where it should be"
	find "$code" -type l -delete
	mkdir -p "$code/wp-content/mu-plugins" "$code/wp-content/uploads/pictures"
	cp "$top/recipe/wp-config.php" "$code/wp-config.php"
	cp "$top/recipe/site.php" "$code/wp-content/mu-plugins/site.php"
	printf '%s\n' 'RewriteEngine On' 'RewriteBase /' 'RewriteCond %{REQUEST_FILENAME} !-f' \
		'RewriteCond %{REQUEST_FILENAME} !-d' 'RewriteRule . /index.php [L]' >"$code/.htaccess"
	head -c 48 /dev/urandom | base64 -w0 | sed 's/.*/<?php define( "STACK_SALT", "&" );/' >"$code/stack-salt.php"
	printf reader-of-a-test-site >"$home/tmp/reader"
	site_configure
	php -d memory_limit=512M -d sys_temp_dir="$home/tmp" "$top/recipe/content.php" "$code" "$home/tmp/reader" "$PAGES" "$COMMENTS" \
		"$USERS" "$PICTURES" >"$home/log/content" 2>&1 || die "WordPress: $(told content)"
	found=$(sql -N -e "SELECT COUNT(*) FROM site.wp_posts WHERE post_type = 'post' AND post_status = 'publish'")
	[ "$found" -ge "$PAGES" ] || die "only $found of $PAGES posts were made: $(told content)"
}

site_configure() {
	printf '<?php\ndefine( "DB_HOST", "localhost:%s" );\n' "$socket" >"$code/stack-config.php"
	chmod 644 "$code/stack-config.php"
}

# site.php keeps a session for years, so that the cookie of the installation is good in every copy.
site_login() {
	local jar=$home/tmp/jar
	printf '%s\tFALSE\t/\tFALSE\t0\twordpress_test_cookie\tWP%%20Cookie%%20check\n' "$name" >"$jar"
	curl -sS --max-time 300 --noproxy '*' --connect-to "$name:80:${1#http://}" -b "$jar" -c "$jar" -o "$home/tmp/login" \
		--data-urlencode log=reader --data-urlencode "pwd@$home/tmp/reader" -d rememberme=forever -d testcookie=1 \
		"http://$name/wp-login.php" || die "the user reader could not log in"
	grep -q wordpress_logged_in "$jar" || die "the user reader could not log in: $(sed 's/<[^>]*>//g' "$home/tmp/login" | tr -s ' \n\t' ' ' | head -c 300)"
	sed 's/^#HttpOnly_//' "$jar" | awk -F'\t' '$0 !~ /^# / && NF == 7 && !seen[$6]++ { printf "%s%s=%s", sep, $6, $7; sep = "; " } END { print "" }'
	rm -f "$jar"
}

site_clear() { sql -e "DELETE FROM site.wp_options WHERE option_name LIKE '%\_transient\_%'"; }
