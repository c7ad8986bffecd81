<?php
# What the test site adds to WordPress.
add_filter( 'auth_cookie_expiration', function () {
	return 315360000;
} );
add_action( 'wp_footer', function () {
	echo '<p>This page is part of a test site.</p>';
} );
