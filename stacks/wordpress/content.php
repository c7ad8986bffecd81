<?php
# Installs the test site and writes its content, the same for the same numbers:
# content.php CODE PASSWORDFILE PAGES COMMENTS USERS PICTURES
[ , $code, $password, $pages, $comments, $users, $pictures ] = $argv;
$_SERVER['HTTP_HOST'] = 'stack.test';
$_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1';
define( 'WP_INSTALLING', true );
define( 'WP_IMPORTING', true );
function wp_new_blog_notification() {
}
function wp_mail() {
	return true;
}
require "$code/wp-load.php";
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install( 'Test site', 'admin', 'admin@stack.test', true, '', wp_generate_password( 24 ) );
wp_cache_flush();
require __DIR__ . '/text.php';

function paragraph() {
	return "<!-- wp:paragraph -->\n<p>" . sentences() . "</p>\n<!-- /wp:paragraph -->\n\n";
}

function picture( $n ) {
	return "<!-- wp:image -->\n<figure class=\"wp-block-image\"><img src=\"/wp-content/uploads/pictures/picture-$n.png\" " .
		"alt=\"Picture $n\"/></figure>\n<!-- /wp:image -->\n\n";
}

function article( $n ) {
	global $pages, $pictures;
	$t = paragraph() . ( $n % 3 === 0 ? picture( 1 + $n % $pictures ) : '' );
	for ( $k = mt_rand( 3, 7 ); $k > 0; $k-- ) {
		$t .= "<!-- wp:heading -->\n<h2>" . rtrim( sentence(), '. ' ) . "</h2>\n<!-- /wp:heading -->\n\n" . paragraph();
		$to = mt_rand( 1, $pages );
		$t .= "<!-- wp:paragraph -->\n<p><a href=\"/post-$to/\">Post $to</a> " . sentence() . "</p>\n<!-- /wp:paragraph -->\n\n";
	}
	return $t;
}

update_option( 'permalink_structure', '/%postname%/' );
update_option( 'page_comments', 1 );
update_option( 'comments_notify', 0 );
update_option( 'moderation_notify', 0 );
update_option( 'siteurl', 'http://stack.test' );
update_option( 'home', 'http://stack.test' );
switch_theme( 'twentytwentythree' );
global $wp_rewrite;
$wp_rewrite->init();
$wp_rewrite->set_permalink_structure( '/%postname%/' );
$wp_rewrite->flush_rules( false );

function made( $id, $what ) {
	if ( is_wp_error( $id ) ) {
		fwrite( STDERR, "error: $what: " . $id->get_error_message() . "\n" );
		exit( 1 );
	}
	return $id;
}

$authors = [ made( wp_insert_user( [ 'user_login' => 'reader', 'user_pass' => file_get_contents( $password ),
	'user_email' => 'reader@stack.test', 'role' => 'editor' ] ), 'user reader' ) ];
for ( $i = 1; $i <= $users; $i++ ) {
	$authors[] = made( wp_insert_user( [ 'user_login' => "user$i", 'user_pass' => "user$i", 'display_name' => "User $i",
		'user_email' => "user$i@stack.test", 'role' => 'author' ] ), "user $i" );
}
for ( $i = 1; $i <= $pictures; $i++ ) {
	draw( $i, "$code/wp-content/uploads/pictures/picture-$i.png" );
	made( wp_insert_attachment( [ 'post_title' => "Picture $i", 'post_mime_type' => 'image/png', 'post_status' => 'inherit' ],
		"pictures/picture-$i.png", 0, true ), "picture $i" );
}
wp_defer_term_counting( true );
wp_defer_comment_counting( true );
wp_suspend_cache_addition( true );
$topics = [];
for ( $i = 0; $i < 40; $i++ ) {
	$topics[] = made( wp_insert_term( "Topic $i", 'category' ), "topic $i" )['term_id'];
}
$posts = [];
$now = 1447632000; # November 2015
function post( $title, $text, $n, $type = 'post' ) {
	global $authors, $topics, $now;
	$when = gmdate( 'Y-m-d H:i:s', $now + 60 * $n );
	return made( wp_insert_post( [ 'post_title' => $title, 'post_name' => sanitize_title( $title ), 'post_content' => $text,
		'post_status' => 'publish', 'post_type' => $type, 'post_author' => $authors[$n % count( $authors )],
		'post_date' => $when, 'post_date_gmt' => $when, 'post_category' => $type === 'post' ? [ $topics[$n % 40] ] : [] ],
		true ), $title );
}
for ( $i = 1; $i <= $pages; $i++ ) {
	$posts[] = post( "Post $i", article( $i ), $i );
}
for ( $i = 1; $i <= $comments; $i++ ) {
	$when = gmdate( 'Y-m-d H:i:s', $now + 60 * $pages + 10 * $i );
	$user = 1 + $i % $users;
	wp_insert_comment( [ 'comment_post_ID' => $posts[( $i * 7 ) % $pages], 'comment_author' => "User $user",
		'comment_author_email' => "user$user@stack.test", 'comment_content' => sentence() . sentence(), 'comment_date' => $when,
		'comment_date_gmt' => $when, 'comment_approved' => 1, 'user_id' => $authors[$user] ] );
}
$heavy = '';
for ( $i = 1; $i <= 100; $i++ ) {
	$heavy .= article( $i );
}
$heavy .= "<!-- wp:latest-posts {\"postsToShow\":100,\"displayPostContent\":true,\"displayAuthor\":true,\"displayPostDate\":true} /-->\n" .
	"<!-- wp:latest-comments {\"commentsToShow\":100} /-->\n<!-- wp:categories {\"showPostCounts\":true} /-->\n<!-- wp:archives /-->\n";
post( 'Heavy', $heavy, 0, 'page' );
wp_defer_term_counting( false );
wp_defer_comment_counting( false );
