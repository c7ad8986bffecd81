<?php
require __DIR__ . '/stack-config.php';
require __DIR__ . '/stack-salt.php';
define( 'DB_NAME', 'site' );
define( 'DB_USER', 'site' );
define( 'DB_PASSWORD', 'site' );
define( 'DB_CHARSET', 'utf8mb4' );
define( 'DB_COLLATE', '' );
foreach ( [ 'AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY', 'AUTH_SALT', 'SECURE_AUTH_SALT', 'LOGGED_IN_SALT',
	'NONCE_SALT' ] as $stack_key ) {
	define( $stack_key, $stack_key . STACK_SALT );
}
define( 'WP_HOME', 'http://stack.test' );
define( 'WP_SITEURL', 'http://stack.test' );
define( 'DISABLE_WP_CRON', true );
define( 'WP_HTTP_BLOCK_EXTERNAL', true );
define( 'AUTOMATIC_UPDATER_DISABLED', true );
define( 'WP_AUTO_UPDATE_CORE', false );
define( 'DISALLOW_FILE_MODS', true );
define( 'WP_DEBUG', false );
define( 'WP_DEFAULT_THEME', 'twentytwentythree' );
$table_prefix = 'wp_';
if ( ! defined( 'ABSPATH' ) ) {
	define( 'ABSPATH', __DIR__ . '/' );
}
require_once ABSPATH . 'wp-settings.php';
