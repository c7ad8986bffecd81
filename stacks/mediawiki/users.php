<?php
# Makes the users of the test site: users.php CODE NUMBER.
$code = $argv[1];
define( 'STACK_USERS', (int)$argv[2] );
require_once "$code/maintenance/Maintenance.php";
class StackUsers extends Maintenance {
	public function execute() {
		for ( $i = 1; $i <= STACK_USERS; $i++ ) {
			User::createNew( "User $i", [ 'real_name' => "Test user $i" ] );
		}
	}
}
$argv = [ $argv[0] ];
$maintClass = StackUsers::class;
require_once RUN_MAINTENANCE_IF_MAIN;
